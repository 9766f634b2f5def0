// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AppStoreTrust
import FuzzSupport
import X509

/// Fuzzes the response of an OCSP responder, which comes from an untrusted network.
///
/// Only what the issuer or its delegate signed is an answer: each answer is that of a seed.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzOCSPResponse(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    fuzz(start, count) { bytes in
        let answers = answers
        let answer = try question.answer(in: bytes, at: now)
        require(answers.contains(answer), "only signed bytes are an answer")
    }
}

/// Within the validity of the seeds.
private let now = Timestamp(milliseconds: 1_795_700_000_000)

private let files = Dictionary(uniqueKeysWithValues: SeedFile.files(of: "FuzzOCSPResponse").map { ($0.name, $0.bytes) })

private let question = requireNoError("the certificates can be read") {
    OCSPQuestion(
        about: try Certificate(derEncoded: files["leaf.cer"] ?? []),
        issuedBy: try Certificate(derEncoded: files["issuer.cer"] ?? []))
}

private let answers: Set<OCSPAnswer> = {
    let answers = files.filter { $0.key.hasSuffix(".der") && !$0.key.hasPrefix("unknown") }.map { name, bytes in
        requireNoError("\(name) is an answer") { try question.answer(in: bytes, at: now) }
    }
    require(answers.contains { $0.status == .good }, "there are seeds that verify")
    return Set(answers)
}()

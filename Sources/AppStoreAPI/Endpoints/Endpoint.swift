// SPDX-License-Identifier: Apache-2.0

public import AppStoreModel

/// One call of an Apple endpoint, as a value: the request, the decoding of its answer, and the rule for retries.
///
/// The static members of the extensions create all endpoints. Each member is named after Apple's endpoint:
/// `client.send(.transactionInfo("410000000000001"), to: .production)`.
public struct Endpoint<Answer: Sendable>: Sendable {
    /// Apple's name, such as `Get Transaction Info`.
    public let name: String
    /// The request, without the bearer token.
    public package(set) var request: APIRequest
    /// Whether Apple has already answered about the same id in this reading. Apple then knows the id, so a refusal is a
    /// ``AppStoreAPIError/Code/contradiction``, unless Apple refuses the place in a list.
    public var followsAnswer = false
    /// Whether Apple has said that the list has something, so that an empty one is a contradiction too.
    package var isNeverEmpty = false
    /// The requests that an app may send per second in production. Apple enforces 3,600 times this number per hour. The
    /// sandbox allows a tenth.
    public let ratePerSecond: Int
    /// The environments that have the endpoint.
    public let environments: Set<Environment>
    /// The failures after which a client may repeat the request on its own.
    public let repetition: Repetition
    /// The HTTP status of success: 202 for Send Consumption Information, otherwise 200.
    public let successStatus: Int
    /// The list that defines the endpoint's error numbers.
    let errors: ErrorList
    /// Reads the body of a successful answer.
    let read: @Sendable (APIAnswer) throws(AnswerFault) -> Answer
    /// Whether a list is empty; false of other answers.
    var isEmpty: @Sendable (Answer) -> Bool = { _ in false }
}

/// The failures after which a client may repeat a request on its own.
public enum Repetition: Hashable, Sendable {
    /// After any transient failure: the second request changes nothing, or Apple recognises the repetition.
    case always
    /// If no answer arrived, or Apple asks for a retry.
    case ifUnanswered
    /// Only if Apple asks for a retry. After any other failure, the first request may have taken effect.
    case onInvitation
}

/// The lists of numbered errors. Their numbers overlap.
enum ErrorList: Sendable {
    case serverAPI
    case advancedCommerce
}

/// The reason why a successful answer is not usable: a sentence.
struct AnswerFault: Error {
    var sentence: String
}

/// The properties of an endpoint, for a definition in a single expression.
struct EndpointRow: Sendable {
    var name: String
    var request: APIRequest
    var rate: Int
    var environments: Set<Environment> = [.production, .sandbox]
    var repetition = Repetition.always
    var errors = ErrorList.serverAPI
    var successStatus = 200

    /// The row, with a request body added.
    func with(_ body: some Encodable) -> EndpointRow {
        var row = self
        // If encoding fails, the request stores the fault, and `AppStoreClient.send` throws it.
        row.request.add(body: try? JSONWriter.bytes(encoding: body))
        return row
    }
}

extension Endpoint where Answer: Decodable {
    /// An endpoint that answers with a JSON object.
    ///
    /// - Parameters:
    ///   - members: The required members of the answer. A list that Apple always sends, even if it is empty, is one of
    ///     them: without it, anybody's `{}` would be an empty list.
    ///   - isWhole: Whether an answer with these members has all that it must have.
    ///   - isEmpty: Whether a list is empty of which Apple may have said otherwise.
    init(
        _ row: EndpointRow, requiring members: String..., isWhole: @escaping @Sendable (Answer) -> Bool = { _ in true },
        isEmpty: @escaping @Sendable (Answer) -> Bool = { _ in false }
    ) {
        self.init(row) { answer throws(AnswerFault) in
            let json = try answer.json()
            if let missing = members.first(where: { json[$0] == nil || json[$0] == .null }) {
                throw AnswerFault(sentence: "the member \(missing) is missing")
            }
            let contents: Answer = try json.decoded()
            guard isWhole(contents) else { throw AnswerFault(sentence: "a signed document is missing") }
            return contents
        }
        self.isEmpty = isEmpty
    }
}

extension Endpoint where Answer == Void {
    /// An endpoint whose status is the whole answer. A body of any length comes from an intermediate server, which also
    /// answers 200 or 202 to requests that never reach Apple.
    init(_ row: EndpointRow) {
        self.init(row) { answer throws(AnswerFault) in
            guard answer.body.isEmpty else {
                throw AnswerFault(sentence: "it has a body of \(answer.body.count) bytes, and Apple's has none")
            }
        }
    }
}

extension Endpoint {
    /// This endpoint with a different ``followsAnswer`` and ``isNeverEmpty``.
    package func following(answer followsAnswer: Bool, neverEmpty isNeverEmpty: Bool) -> Self {
        var endpoint = self
        endpoint.followsAnswer = followsAnswer
        endpoint.isNeverEmpty = isNeverEmpty
        return endpoint
    }

    private init(_ row: EndpointRow, _ read: @escaping @Sendable (APIAnswer) throws(AnswerFault) -> Answer) {
        name = row.name
        request = row.request
        ratePerSecond = row.rate
        environments = row.environments
        repetition = row.repetition
        successStatus = row.successStatus
        errors = row.errors
        self.read = read
    }
}

extension APIAnswer {
    /// The body as a JSON object.
    fileprivate func json() throws(AnswerFault) -> JSONValue {
        guard isJSON else {
            throw AnswerFault(sentence: "its content type is '\(headers["content-type"] ?? "")', not application/json")
        }
        do {
            let json = try JSONValue(parsing: body)
            if json.members != nil { return json }
        } catch {
            throw AnswerFault(sentence: "the answer is not JSON: \(error)")
        }
        throw AnswerFault(sentence: "the answer is not a JSON object")
    }
}

extension JSONValue {
    fileprivate func decoded<Value: Decodable>() throws(AnswerFault) -> Value {
        do {
            return try decode(Value.self)
        } catch {
            throw AnswerFault(sentence: (error as? DecodingError)?.sentence ?? "\(error)")
        }
    }
}

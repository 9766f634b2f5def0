// SPDX-License-Identifier: Apache-2.0

import AppStoreModel
import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import NIOPosix

// Maps the failure of a delivery to the result that the App Store records for it.

extension SendAttemptResult {
    /// The result of an attempt without a complete response.
    ///
    /// - Parameters:
    ///   - isSecure: Whether the URL is an HTTPS URL.
    ///   - hasHead: Whether the head of a response had arrived.
    init(_ error: any Error, isSecure: Bool, hasHead: Bool) {
        switch error {
        case let error as HTTPClientError: self.init(error, hasHead: hasHead)
        case let error as HTTPParserError: self = error == .invalidEOFState ? .prematureClose : .invalidResponse
        case is IOError, is NIOConnectionError, is ChannelError, is SocketAddressError: self = .socketIssue
        // The errors of the TLS library have several types. They are therefore not listed here. Instead, any other
        // error before the head of a secure response counts as an error of TLS.
        default: self = isSecure && !hasHead ? .tlsIssue : .other
        }
    }

    private init(_ error: HTTPClientError, hasHead: Bool) {
        self =
            switch error {
            case .connectTimeout, .readTimeout, .writeTimeout, .deadlineExceeded, .getConnectionFromPoolTimeout:
                .timedOut
            case .tlsHandshakeTimeout: .tlsIssue
            case .redirectLimitReached: .circularRedirect
            case .remoteConnectionClosed: hasHead ? .prematureClose : .noResponse
            case .uncleanShutdown: .prematureClose
            default: .other
            }
    }
}

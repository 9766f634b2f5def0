// SPDX-License-Identifier: Apache-2.0

// Endpoints of Retention Messaging: messages to customers who are about to cancel. The developer chooses the
// identifiers of images and messages, which are UUIDs.

public import AppStoreModel

extension Endpoint where Answer == Void {
    /// Upload Image: a PNG file.
    public static func uploadImage(_ png: [UInt8], as imageId: String, size: ImageSize? = nil) -> Self {
        var request = APIRequest("PUT", "/inApps/v1/messaging/image/*", [imageId])
        request.add("imageSize", [size].compactMap { $0?.rawValue })
        request.add(body: png, type: "image/png")
        return Self(EndpointRow(name: "Upload Image", request: request, rate: 1, repetition: .onInvitation))
    }

    /// Delete Image. If the request is repeated after a lost answer, Apple no longer finds the image.
    public static func deleteImage(_ imageId: String) -> Self {
        let request = APIRequest("DELETE", "/inApps/v1/messaging/image/*", [imageId])
        return Self(EndpointRow(name: "Delete Image", request: request, rate: 1))
    }

    /// Upload Message.
    public static func uploadMessage(_ body: UploadMessageRequestBody, as messageId: String) -> Self {
        let request = APIRequest("PUT", "/inApps/v1/messaging/message/*", [messageId])
        return Self(
            EndpointRow(name: "Upload Message", request: request, rate: 1, repetition: .onInvitation).with(body))
    }

    /// Delete Message. If the request is repeated after a lost answer, Apple no longer finds the message.
    public static func deleteMessage(_ messageId: String) -> Self {
        let request = APIRequest("DELETE", "/inApps/v1/messaging/message/*", [messageId])
        return Self(EndpointRow(name: "Delete Message", request: request, rate: 1))
    }

    /// Configure Default Message, for a product and a locale such as `en-US`.
    public static func configureDefaultMessage(
        _ body: DefaultConfiguration, of productId: String, in locale: String
    ) -> Self {
        let request = APIRequest("PUT", "/inApps/v1/messaging/default/*/*", [productId, locale])
        return Self(EndpointRow(name: "Configure Default Message", request: request, rate: 10).with(body))
    }

    /// Delete Default Message.
    public static func deleteDefaultMessage(of productId: String, in locale: String) -> Self {
        let request = APIRequest("DELETE", "/inApps/v1/messaging/default/*/*", [productId, locale])
        return Self(EndpointRow(name: "Delete Default Message", request: request, rate: 1))
    }

    /// Configure Realtime URL: the URL to which Apple sends requests for messages.
    public static func configureRealtimeURL(_ body: RealtimeURL) -> Self {
        let request = APIRequest("PUT", "/inApps/v1/messaging/realtime/url")
        return Self(EndpointRow(name: "Configure Realtime URL", request: request, rate: 1).with(body))
    }

    /// Delete Realtime URL.
    public static var deleteRealtimeURL: Self {
        let request = APIRequest("DELETE", "/inApps/v1/messaging/realtime/url")
        return Self(EndpointRow(name: "Delete Realtime URL", request: request, rate: 1))
    }
}

extension Endpoint where Answer == GetImageListResponse {
    /// Get Image List.
    public static var images: Self {
        let request = APIRequest("GET", "/inApps/v1/messaging/image/list")
        return Self(EndpointRow(name: "Get Image List", request: request, rate: 1), requiring: "imageIdentifiers")
    }
}

extension Endpoint where Answer == GetMessageListResponse {
    /// Get Message List.
    public static var messages: Self {
        let request = APIRequest("GET", "/inApps/v1/messaging/message/list")
        return Self(EndpointRow(name: "Get Message List", request: request, rate: 1), requiring: "messageIdentifiers")
    }
}

extension Endpoint where Answer == DefaultConfiguration {
    /// Get Default Message.
    public static func defaultMessage(of productId: String, in locale: String) -> Self {
        let request = APIRequest("GET", "/inApps/v1/messaging/default/*/*", [productId, locale])
        return Self(EndpointRow(name: "Get Default Message", request: request, rate: 1), requiring: "messageIdentifier")
    }
}

extension Endpoint where Answer == RealtimeURL {
    /// Get Realtime URL.
    public static var realtimeURL: Self {
        let request = APIRequest("GET", "/inApps/v1/messaging/realtime/url")
        return Self(EndpointRow(name: "Get Realtime URL", request: request, rate: 1), requiring: "realtimeURL")
    }
}

extension Endpoint where Answer == PerformanceTestResponse {
    /// Initiate Performance Test, in the sandbox.
    public static func startPerformanceTest(_ body: PerformanceTestRequest) -> Self {
        let row = EndpointRow(
            name: "Initiate Performance Test", request: .init("POST", "/inApps/v1/messaging/performanceTest"), rate: 1,
            environments: [.sandbox], repetition: .onInvitation)
        return Self(row.with(body), requiring: "requestId")
    }
}

extension Endpoint where Answer == PerformanceTestResultResponse {
    /// Get Performance Test Results, in the sandbox.
    public static func performanceTestResult(_ requestId: String) -> Self {
        let row = EndpointRow(
            name: "Get Performance Test Results",
            request: .init("GET", "/inApps/v1/messaging/performanceTest/result/*", [requestId]), rate: 1,
            environments: [.sandbox])
        return Self(row, requiring: "result")
    }
}

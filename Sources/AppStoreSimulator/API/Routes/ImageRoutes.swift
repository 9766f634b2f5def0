// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// The images of retention messages: messages by which an app wants to keep customers who are about to cancel.

extension SimulatedStore {
    mutating func uploadImage(_ call: StoreCall) throws -> StoreResponse {
        let id = try Self.identifier(call)
        let size = try Self.imageSize(call)
        guard let image = PNGHeader(call.request.body), Self.isValid(image, size) else {
            throw StoreRefusal(.invalidImage)
        }
        var state = retention(call)
        guard state.images[id] == nil else { throw StoreRefusal(.imageAlreadyExists) }
        guard state.images.count < RetentionMessages.capacity else { throw StoreRefusal(.maximumNumberOfImagesReached) }
        state.images[id] = RetentionMessages.Image(
            size: size, approved: RetentionMessages.approval(at: world.now, in: call.environment))
        retention[call.environment] = state
        return StoreResponse(status: 200)
    }

    /// Apple has not published the size of a bullet point's image, so any size is valid.
    private static func isValid(_ image: PNGHeader, _ size: ImageSize) -> Bool {
        size == .bulletPoint || image.width == 3840 && image.height == 2160 && !image.hasAlpha
    }

    private static func imageSize(_ call: StoreCall) throws(StoreRefusal) -> ImageSize {
        guard let text = call.value("imageSize") else { return .fullSize }
        guard let size = ImageSize(rawValue: text) else { throw StoreRefusal(.badRequestImageSize) }
        return size
    }

    mutating func deleteImage(_ call: StoreCall) throws -> StoreResponse {
        let id = try Self.identifier(call)
        var state = retention(call)
        guard state.images[id] != nil else { throw StoreRefusal(.imageNotFound) }
        guard !state.messages.values.contains(where: { $0.images.contains(id) }) else {
            throw StoreRefusal(.imageInUse)
        }
        state.images[id] = nil
        retention[call.environment] = state
        return StoreResponse(status: 200)
    }

    func images(_ call: StoreCall) throws -> StoreResponse {
        var answer = GetImageListResponse()
        answer.imageIdentifiers = retention(call).images.sorted { $0.key < $1.key }.map { id, image in
            var item = GetImageListResponse.Image()
            item.imageIdentifier = id
            item.imageState = Open(image.approved.approval(at: world.now))
            item.imageSize = Open(image.size)
            return item
        }
        return try StoreResponse(encoding: answer)
    }

    // MARK: - For all routes of retention messages

    /// The state of the environment that was called.
    func retention(_ call: StoreCall) -> RetentionMessages { retention[call.environment] ?? RetentionMessages() }

    /// The UUID in the path, in lower case.
    static func identifier(_ call: StoreCall) throws(StoreRefusal) -> String {
        guard call.id.isUUID else { throw StoreRefusal(.generalBadRequest, "The identifier is not a UUID.") }
        return call.id.lowercased()
    }
}

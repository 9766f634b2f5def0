// SPDX-License-Identifier: Apache-2.0

import AppStoreModel

// The endpoints of retention messages, by which an app wants to keep customers who are about to cancel. A default
// message belongs to a product and a locale.

extension SimulatedStore {
    mutating func uploadMessage(_ call: StoreCall) throws -> StoreResponse {
        let id = try Self.identifier(call)
        // The client gets only Apple's code, so the decoder's reason is dropped.
        guard let body = try? call.json().decode(UploadMessageRequestBody.self) else {
            throw StoreRefusal(.generalBadRequest)
        }
        try body.check()
        var state = retention(call)
        for image in body.images {
            guard let stored = state.images[image] else { throw StoreRefusal(.imageNotFound) }
            guard stored.approved <= world.now else { throw StoreRefusal(.imageNotApproved) }
        }
        guard state.messages[id] == nil else { throw StoreRefusal(.messageAlreadyExists) }
        guard state.messages.count < RetentionMessages.capacity else {
            throw StoreRefusal(.maximumNumberOfMessagesReached)
        }
        state.messages[id] = RetentionMessages.StoredMessage(
            images: body.images, approved: RetentionMessages.approval(at: world.now, in: call.environment))
        retention[call.environment] = state
        return StoreResponse(status: 200)
    }

    mutating func deleteMessage(_ call: StoreCall) throws -> StoreResponse {
        let id = try Self.identifier(call)
        var state = retention(call)
        guard state.messages.removeValue(forKey: id) != nil else { throw StoreRefusal(.messageNotFound) }
        state.defaults = state.defaults.filter { $0.value != id }
        retention[call.environment] = state
        return StoreResponse(status: 200)
    }

    func messages(_ call: StoreCall) throws -> StoreResponse {
        var answer = GetMessageListResponse()
        answer.messageIdentifiers = retention(call).messages.sorted { $0.key < $1.key }.map { id, message in
            var item = GetMessageListResponse.Message()
            item.messageIdentifier = id
            item.messageState = Open(message.approved.approval(at: world.now))
            return item
        }
        return try StoreResponse(encoding: answer)
    }

    // MARK: - Defaults

    mutating func setDefaultMessage(_ call: StoreCall) throws -> StoreResponse {
        let key = try defaultKey(call)
        guard let id = try call.json()["messageIdentifier"]?.string?.lowercased(), id.isUUID else {
            throw StoreRefusal(.generalBadRequest, "messageIdentifier is not a UUID.")
        }
        guard let message = retention(call).messages[id] else { throw StoreRefusal(.messageNotFound) }
        guard message.approved <= world.now else { throw StoreRefusal(.messageNotApproved) }
        retention[call.environment]?.defaults[key] = id
        return StoreResponse(status: 200)
    }

    func defaultMessage(_ call: StoreCall) throws -> StoreResponse {
        var answer = DefaultConfiguration()
        answer.messageIdentifier = retention(call).defaults[try defaultKey(call)]
        guard answer.messageIdentifier != nil else { throw StoreRefusal(.defaultMessageNotFound) }
        return try StoreResponse(encoding: answer)
    }

    mutating func deleteDefaultMessage(_ call: StoreCall) throws -> StoreResponse {
        let key = try defaultKey(call)
        guard retention[call.environment]?.defaults.removeValue(forKey: key) != nil else {
            throw StoreRefusal(.defaultMessageNotFound)
        }
        return StoreResponse(status: 200)
    }

    private func defaultKey(_ call: StoreCall) throws(StoreRefusal) -> RetentionMessages.DefaultKey {
        guard world.catalogue[call.id]?.plan != nil else { throw StoreRefusal(.invalidProductId) }
        let locale = call.parameters.last ?? ""
        let parts = locale.split(separator: "-", omittingEmptySubsequences: false)
        let isLocale =
            (1...3).contains(parts.count) && (2...3).contains(parts[0].count)
            && parts.allSatisfy {
                (2...8).contains($0.count) && $0.allSatisfy { $0.isASCII && $0.isLetter || $0.isNumber }
            }
        guard isLocale else { throw StoreRefusal(.invalidLocale) }
        return RetentionMessages.DefaultKey(product: call.id, locale: locale)
    }
}

extension UploadMessageRequestBody {
    /// The longest texts, in characters, and the most bullet points: Apple's numbers.
    private static let headerLength = 66
    private static let bodyLength = 144
    private static let altTextLength = 150
    private static let bulletLength = 66
    private static let bullets = 5

    /// The identifiers of all images.
    fileprivate var images: [String] {
        ([image?.imageIdentifier] + (bulletPoints ?? []).map(\.imageIdentifier)).compactMap { $0?.lowercased() }
    }

    /// - Throws: `StoreRefusal` with the code of the first invalid member.
    fileprivate func check() throws(StoreRefusal) {
        guard let header, let body else { throw StoreRefusal(.generalBadRequest, "A message has a header and a body.") }
        if header.count > Self.headerLength { throw StoreRefusal(.headerTooLong) }
        if body.count > Self.bodyLength { throw StoreRefusal(.bodyTooLong) }
        let bullets = bulletPoints ?? []
        if bullets.count > Self.bullets { throw StoreRefusal(.badRequestTooManyBulletPoints) }
        if bullets.contains(where: { $0.text?.count ?? 0 > Self.bulletLength }) {
            throw StoreRefusal(.badRequestBulletPointTextTooLong)
        }
        let altTexts = [image?.altText] + bullets.map(\.altText)
        if altTexts.contains(where: { $0?.count ?? 0 > Self.altTextLength }) { throw StoreRefusal(.altTextTooLong) }
        if let headerPosition, headerPosition.known == nil {
            throw StoreRefusal(.generalBadRequest, "headerPosition is neither ABOVE_BODY nor ABOVE_IMAGE.")
        }
        if headerPosition == .aboveImage, image?.imageIdentifier == nil {
            throw StoreRefusal(.badRequestAboveImageRequiresAnImage)
        }
    }
}

import Crypto
public import FoundationEssentials

/// Seals values of one organization when they are written, and opens them when they are read.
///
/// A value is sealed by AES-256-GCM, with a random nonce and with the organization's newest data key, which has the
/// highest number. The value's place is authenticated.
///
/// If an organization has no data key, its values are stored in plain form. Plain values that were stored before the
/// first data key, and values that are sealed with older data keys, remain readable.
public struct Seal: Sendable {
    private enum State: Sendable {
        case plain
        case sealed(DataKeys)
        case locked(String)
    }

    /// The data keys of the organization. All readers and writers of the organization share this object, which never
    /// changes.
    private final class DataKeys: Sendable {
        let organization: UUID
        let number: Int32
        let digits: [UInt8]
        let current: SymmetricKey
        let all: [Int32: SymmetricKey]
        /// The numbers of older keys that are stored but cannot be unwrapped.
        let closed: Set<Int32>

        init(
            organization: UUID,
            number: Int32,
            current: SymmetricKey,
            all: [Int32: SymmetricKey],
            closed: Set<Int32>
        ) {
            self.organization = organization
            self.number = number
            digits = Array(String(number).utf8)
            self.current = current
            self.all = all
            self.closed = closed
        }
    }

    private let state: State
    private var closing = Closing.known
    /// A function that is called for each value that cannot be opened and is treated as missing.
    private let observer: (@Sendable (SealedPlace, SealError) -> Void)?
    /// The users' own keys, and whether new values are sealed with them; nil if these keys are not used.
    private let users: UserSealing?

    /// The seal of an organization without data keys.
    public static let plain = Seal(state: .plain)

    /// The seal of an organization whose data this gateway cannot open.
    ///
    /// - Parameter reason: the reason, for the log.
    public static func locked(_ reason: String) -> Seal { Seal(state: .locked(reason)) }

    private init(state: State) {
        self.state = state
        observer = nil
        users = nil
    }

    /// Unwraps an organization's data keys.
    ///
    /// An older key that cannot be unwrapped is omitted. If the newest key cannot be unwrapped, all values are locked.
    ///
    /// - Parameters:
    ///   - masters: the configured master keys; nil if no keys are configured.
    ///   - users: the users' own keys, and whether new values are sealed with them; nil if these keys are not used.
    ///   - observer: called for each value that cannot be opened and is treated as missing; see ``read(json:as:_:)``.
    public init(
        of organization: UUID,
        _ wrapped: [WrappedKey],
        _ masters: MasterKeys?,
        users: UserSealing? = nil,
        observer: (@Sendable (SealedPlace, SealError) -> Void)? = nil
    ) {
        self.observer = observer
        self.users = users
        guard let newest = wrapped.max(by: { $0.number < $1.number }) else {
            state = .plain
            return
        }
        guard let masters else {
            state = .locked("the organization's data is encrypted, but no master key is configured")
            return
        }
        do throws(SealError) {
            let current = try newest.unwrapped(of: organization, masters)
            var all = [newest.number: current]
            var closed: Set<Int32> = []
            for key in wrapped where key.number != newest.number {
                all[key.number] = try? key.unwrapped(of: organization, masters)
                if all[key.number] == nil { closed.insert(key.number) }
            }
            state = .sealed(
                DataKeys(organization: organization, number: newest.number, current: current, all: all, closed: closed)
            )
        } catch {
            state = .locked(error.description)
        }
    }

    /// Whether values are written in plain form.
    public var isPlain: Bool {
        if case .plain = state { true } else { false }
    }

    /// The reason why no value can be read or written; nil if values can be read and written.
    public var lock: String? {
        if case .locked(let reason) = state { reason } else { nil }
    }

    /// The number of the data key that seals new values; nil if values are not sealed.
    public var number: Int32? {
        if case .sealed(let keys) = state { keys.number } else { nil }
    }

    /// Whether new values in rows of users are sealed with the users' own keys.
    public var usesUserKeys: Bool {
        if case .sealed = state { users?.seals == true } else { false }
    }

    /// The types whose documents are sealed with the owners' keys.
    public var privateTypes: Set<ByteExactString> { usesUserKeys ? users?.privateTypes ?? [] : [] }

    /// The users whose keys must be fetched or created before values can be sealed for them.
    public func lacking(_ users: some Sequence<LaneKey>) -> [LaneKey] {
        guard usesUserKeys, let ring = self.users?.ring else { return [] }
        return users.filter { !ring.canSeal($0) }
    }

    /// The user whose key seals a document; nil if no user's key seals it.
    ///
    /// If other users can also see the documents of a type, these documents are not sealed with a user's key.
    public func user(ofType type: String, owner: UUID?) -> UUID? {
        guard usesUserKeys, let owner, users?.privateTypes.contains(type) == true else { return nil }
        return owner
    }

    // MARK: - Values of json columns

    /// - Parameter owner: the user whose key seals a document; see ``user(ofType:owner:)``. A value in a user's row
    ///   needs no owner, because its place contains the user.
    /// - Throws: ``SealError/locked(_:)``; ``SealError/noUserKeys(_:)``.
    public func seal(
        json plain: [UInt8]?,
        as place: @autoclosure () -> SealedPlace,
        of owner: UUID? = nil
    ) throws(SealError) -> [UInt8]? {
        guard let plain else { return nil }
        switch state {
        case .plain: return SealedText.escaped(json: plain)
        case .sealed(let keys): return try seal(plain, keys, place(), owner, isJSON: true)
        case .locked(let reason): throw .locked(reason)
        }
    }

    public func open(json stored: [UInt8]?, as place: @autoclosure () -> SealedPlace) throws(SealError) -> [UInt8]? {
        guard let stored else { return nil }
        guard SealedText.isSealed(json: stored) else { return SealedText.unescaped(json: stored) }
        return try open(stored, place(), isJSON: true)
    }

    // MARK: - Values of text columns

    /// - Throws: ``SealError/locked(_:)``; ``SealError/noUserKeys(_:)``.
    public func seal(text plain: String?, as place: @autoclosure () -> SealedPlace) throws(SealError) -> String? {
        guard let plain else { return nil }
        switch state {
        case .plain: return SealedText.escaped(text: plain)
        case .sealed(let keys):
            return String(decoding: try seal(Array(plain.utf8), keys, place(), nil, isJSON: false), as: UTF8.self)
        case .locked(let reason): throw .locked(reason)
        }
    }

    public func open(text stored: String?, as place: @autoclosure () -> SealedPlace) throws(SealError) -> String? {
        guard let stored else { return nil }
        guard SealedText.isSealed(text: stored) else { return SealedText.unescaped(text: stored) }
        return String(decoding: try open(Array(stored.utf8), place(), isJSON: false), as: UTF8.self)
    }

    // MARK: - Values that stay closed

    /// The errors after which a value is "closed", which means that the value is returned as nil.
    ///
    /// After other errors, the reader receives the error, and tries again.
    public enum Closing: Sendable, Hashable {
        /// Errors that newer keys cannot resolve: the value was changed, was moved to another place, or is sealed with
        /// a user's key that was destroyed.
        case damaged
        /// The errors of ``damaged``, and the error that no configured master key unwraps the value's stored key.
        case known
        /// The errors of ``known``, and the error that the value's data key is unknown. Use this case if no newer keys
        /// can be fetched.
        case everything
    }

    public func closing(_ closing: Closing) -> Seal {
        var seal = self
        seal.closing = closing
        return seal
    }

    /// The seal for a reader that cannot fetch newer keys.
    public var withoutKeyRefresh: Seal { closing(.everything) }

    /// Whether the data key with this number is stored, but its master key is missing.
    public func isThere(_ number: Int32) -> Bool {
        if case .sealed(let keys) = state { keys.closed.contains(number) } else { false }
    }

    /// Whether the value is closed after an error. If so, its row is returned without the value.
    private func isHopeless(_ error: SealError) -> Bool {
        switch error {
        // after these errors, the missing keys are fetched, and the value is read again
        case .locked, .unknownUserKeys, .noUserKeys: false
        case .damaged, .destroyedUserKey: true
        case .closedUserKey: closing != .damaged
        case .unknownKey(let number): closing == .everything || (closing == .known && isThere(number))
        }
    }

    /// A value from a json column; nil if the value is closed.
    ///
    /// - Parameter unreadable: receives the name of the member that would contain the closed value in a response.
    /// - Throws: ``SealError`` if everything is locked, or if newer keys may open the value.
    public func read(
        json stored: [UInt8]?,
        as place: @autoclosure () -> SealedPlace,
        _ unreadable: inout [String]
    ) throws(SealError) -> [UInt8]? {
        do throws(SealError) {
            return try open(json: stored, as: place())
        } catch {
            try record(error, place(), &unreadable)
            return nil
        }
    }

    /// A value from a text column; nil if the value is closed. See ``read(json:as:_:)``.
    public func read(
        text stored: String?,
        as place: @autoclosure () -> SealedPlace,
        _ unreadable: inout [String]
    ) throws(SealError) -> String? {
        do throws(SealError) {
            return try open(text: stored, as: place())
        } catch {
            try record(error, place(), &unreadable)
            return nil
        }
    }

    private func record(_ error: SealError, _ place: SealedPlace, _ unreadable: inout [String]) throws(SealError) {
        guard isHopeless(error) else { throw error }
        observer?(place, error)
        unreadable.append(place.member)
    }

    // MARK: -

    /// A user's own key for sealing; nil if only the organization's key is used.
    ///
    /// - Parameter isOwner: whether the value is a document, which is sealed with its owner's key. A write of a
    ///   document does not wait for the owner's key, because other users can write the document, too.
    private func own(_ user: UUID, isOwner: Bool, _ keys: DataKeys) throws(SealError) -> SymmetricKey? {
        guard let users, users.seals else { return nil }
        let name = LaneKey(organization: keys.organization, user: user)
        switch users.ring.find(name) {
        case .key(let key): return key
        // new values of the user, except documents, wait until the user's key can be unwrapped
        case .closed(let reason):
            if isOwner { return nil }
            throw .closedUserKey(reason)
        // a user who is being erased gets no new key, because values that are still written are erased together with
        // all others
        case .refused: return nil
        case .gone, nil: throw .noUserKeys([name])
        }
    }

    private func seal(
        _ plain: [UInt8],
        _ keys: DataKeys,
        _ place: SealedPlace,
        _ owner: UUID?,
        isJSON: Bool
    ) throws(SealError) -> [UInt8] {
        var (key, user) = (keys.current, place.user ?? owner)
        if let one = user, let own = try own(one, isOwner: place.user == nil, keys) {
            key = UserSealing.contentKey(key, own, of: LaneKey(organization: keys.organization, user: one))
        } else {
            user = nil
        }
        do {
            let authenticated = place.authenticated(in: keys.organization, under: user)
            let box = try AES.GCM.seal(plain, using: key, authenticating: authenticated)
            guard let combined = box.combined else { throw SealError.damaged(place.name) }
            return SealedText.written(combined, number: keys.digits, user: user, isJSON: isJSON)
        } catch {
            throw .damaged(place.name)
        }
    }

    /// The key that opens values that are sealed with a user's key.
    private func contentKey(_ data: SymmetricKey, of user: LaneKey) throws(SealError) -> SymmetricKey {
        switch users?.ring.find(user) {
        case .key(let own): return UserSealing.contentKey(data, own, of: user)
        case .closed(let reason): throw .closedUserKey(reason)
        case .gone, .refused: throw .destroyedUserKey(user)
        case nil:
            // without a key ring, the key cannot be fetched
            throw users == nil ? .destroyedUserKey(user) : .unknownUserKeys([user])
        }
    }

    private func open(_ stored: [UInt8], _ place: SealedPlace, isJSON: Bool) throws(SealError) -> [UInt8] {
        if case .locked(let reason) = state { throw .locked(reason) }
        guard let (number, user, sealed) = SealedText.read(stored, isJSON: isJSON) else { throw .damaged(place.name) }
        // the value is not damaged: another gateway may have created the organization's first key just now
        guard case .sealed(let keys) = state else { throw .unknownKey(number) }
        guard var key = keys.all[number] else { throw .unknownKey(number) }
        if let user { key = try contentKey(key, of: LaneKey(organization: keys.organization, user: user)) }
        do {
            let authenticated = place.authenticated(in: keys.organization, under: user)
            let box = try AES.GCM.SealedBox(combined: sealed)
            let plain = try AES.GCM.open(box, using: key, authenticating: authenticated)
            return Array(plain)
        } catch {
            throw .damaged(place.name)
        }
    }
}

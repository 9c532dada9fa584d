import Crypto
public import Foundation

/// Seals what is written of one organization, and opens what is read: AES-256-GCM under the organization's data key of
/// the highest number, with a random nonce, and the place of the value authenticated.
///
/// Where an organization has no data key values are stored as they are. Values from before it had one, and values under
/// older numbers, are read all the same.
public struct Seal: Sendable {
    private enum State: Sendable {
        case plain
        case sealed(DataKeys)
        case locked(String)
    }

    /// Shared by whoever reads or writes for the organization; never changes.
    private final class DataKeys: Sendable {
        let organization: UUID
        let number: Int32
        let digits: [UInt8]
        let current: SymmetricKey
        let all: [Int32: SymmetricKey]

        init(organization: UUID, number: Int32, current: SymmetricKey, all: [Int32: SymmetricKey]) {
            self.organization = organization
            self.number = number
            digits = Array(String(number).utf8)
            self.current = current
            self.all = all
        }
    }

    private let state: State

    /// For an organization without data keys.
    public static let plain = Seal(state: .plain)

    /// For an organization whose data cannot be opened here.
    ///
    /// - Parameter reason: for the log.
    public static func locked(_ reason: String) -> Seal { Seal(state: .locked(reason)) }

    private init(state: State) {
        self.state = state
    }

    /// Unwraps an organization's data keys. One of an older number that does not open is left out; where the newest does
    /// not, all is locked.
    ///
    /// - Parameter masters: nil where none are configured.
    public init(of organization: UUID, _ wrapped: [WrappedKey], _ masters: MasterKeys?) {
        guard let newest = wrapped.max(by: { $0.number < $1.number }) else {
            state = .plain
            return
        }
        guard let masters else {
            state = .locked("the organization's data are sealed, and no master key is configured")
            return
        }
        do throws(SealError) {
            let current = try newest.unwrapped(of: organization, masters)
            var all = [newest.number: current]
            for key in wrapped where key.number != newest.number {
                all[key.number] = try? key.unwrapped(of: organization, masters)
            }
            state = .sealed(
                DataKeys(organization: organization, number: newest.number, current: current, all: all)
            )
        } catch {
            state = .locked(error.description)
        }
    }

    /// Whether what is written is stored as it is.
    public var isPlain: Bool {
        if case .plain = state { true } else { false }
    }

    /// Why nothing can be read or written; nil where it can.
    public var lock: String? {
        if case .locked(let reason) = state { reason } else { nil }
    }

    /// The number of the data key that seals; nil where none does.
    public var number: Int32? {
        if case .sealed(let keys) = state { keys.number } else { nil }
    }

    // MARK: - Values of json columns

    /// A value for a json column.
    ///
    /// - Throws: ``SealError/locked(_:)``.
    public func seal(json plain: [UInt8]?, as place: @autoclosure () -> SealedPlace) throws(SealError) -> [UInt8]? {
        guard let plain else { return nil }
        switch state {
        case .plain: return SealedText.escaped(json: plain)
        case .sealed(let keys): return try Self.seal(plain, keys, place(), isJSON: true)
        case .locked(let reason): throw .locked(reason)
        }
    }

    /// A value that was read from a json column.
    public func open(json stored: [UInt8]?, as place: @autoclosure () -> SealedPlace) throws(SealError) -> [UInt8]? {
        guard let stored, SealedText.isSealed(json: stored) else { return stored }
        return try open(stored, place(), isJSON: true)
    }

    // MARK: - Values of text columns

    /// A value for a text column.
    ///
    /// - Throws: ``SealError/locked(_:)``.
    public func seal(text plain: String?, as place: @autoclosure () -> SealedPlace) throws(SealError) -> String? {
        guard let plain else { return nil }
        switch state {
        case .plain: return SealedText.escaped(text: plain)
        case .sealed(let keys):
            return String(decoding: try Self.seal(Array(plain.utf8), keys, place(), isJSON: false), as: UTF8.self)
        case .locked(let reason): throw .locked(reason)
        }
    }

    /// A value that was read from a text column.
    public func open(text stored: String?, as place: @autoclosure () -> SealedPlace) throws(SealError) -> String? {
        guard let stored, SealedText.isSealed(text: stored) else { return stored }
        return String(decoding: try open(Array(stored.utf8), place(), isJSON: false), as: UTF8.self)
    }

    // MARK: -

    private static func seal(
        _ plain: [UInt8],
        _ keys: DataKeys,
        _ place: SealedPlace,
        isJSON: Bool
    ) throws(SealError) -> [UInt8] {
        do {
            let box = try AES.GCM.seal(
                plain,
                using: keys.current,
                authenticating: place.authenticated(in: keys.organization)
            )
            guard let combined = box.combined else { throw SealError.damaged(place.name) }
            return SealedText.written(combined, number: keys.digits, isJSON: isJSON)
        } catch {
            throw .damaged(place.name)
        }
    }

    private func open(_ stored: [UInt8], _ place: SealedPlace, isJSON: Bool) throws(SealError) -> [UInt8] {
        let keys: DataKeys
        switch state {
        case .sealed(let own): keys = own
        case .locked(let reason): throw .locked(reason)
        // another replica may have made the organization's first key a moment ago
        case .plain: throw .unknownKey(SealedText.read(stored, isJSON: isJSON)?.number ?? 0)
        }
        guard let (number, sealed) = SealedText.read(stored, isJSON: isJSON) else { throw .damaged(place.name) }
        guard let key = keys.all[number] else { throw .unknownKey(number) }
        do {
            let box = try AES.GCM.SealedBox(combined: sealed)
            let plain = try AES.GCM.open(box, using: key, authenticating: place.authenticated(in: keys.organization))
            return Array(plain)
        } catch {
            throw .damaged(place.name)
        }
    }
}

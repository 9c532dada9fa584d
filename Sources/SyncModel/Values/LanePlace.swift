public import Foundation
import JSONText

/// A reader's position among the changes of a lane. All changes under one lock of the lane carry the same change
/// position, so a place names the last item that the reader has seen at its change position.
public struct LanePlace: Sendable, Hashable {
    /// The last item seen at a change position. Mutations come first, in lane order, then mappings by client id and
    /// type.
    public enum Last: Sendable, Hashable {
        /// By its position in the lane.
        case mutation(position: Int64)
        case mapping(clientID: UUID, entityType: String)
    }

    /// The reader has seen everything below.
    public var change: Int64
    /// The last item seen at ``change`` itself; nil: the reader has seen all of them.
    public var last: Last?

    public init(change: Int64, last: Last? = nil) {
        self.change = change
        self.last = last
    }

    /// Nil for an invalid place.
    init?(_ text: Substring) {
        let parts = text.split(separator: "-", maxSplits: 3, omittingEmptySubsequences: false)
        guard let change = Int64(parts[0], radix: 36), change >= 0 else { return nil }
        self.init(change: change)
        if parts.count == 1 { return }
        switch (parts[1], parts.count) {
        case ("m", 3):
            guard let position = Int64(parts[2], radix: 36), position >= 0 else { return nil }
            last = .mutation(position: position)
        case ("i", 4):
            guard let clientID = UUID(compact: parts[2]), EntityType.isValidName(String(parts[3])) else { return nil }
            last = .mapping(clientID: clientID, entityType: String(parts[3]))
        default: return nil
        }
    }

    /// The form within a cursor; always the cursor's last part.
    var text: String {
        let change = String(change, radix: 36)
        return switch last {
        case nil: change
        case .mutation(let position): "\(change)-m-\(String(position, radix: 36))"
        case .mapping(let clientID, let type): "\(change)-i-\(clientID.compact)-\(type)"
        }
    }
}

extension UUID {
    /// Without hyphens.
    fileprivate var compact: String { lowercased.replacing("-", with: "") }

    fileprivate init?(compact text: Substring) {
        guard text.utf8.count == 32 else { return nil }
        var hyphenated = ""
        for (index, character) in text.enumerated() {
            if [8, 12, 16, 20].contains(index) { hyphenated.append("-") }
            hyphenated.append(character)
        }
        guard let id = UUID(text: hyphenated.utf8) else { return nil }
        self = id
    }
}

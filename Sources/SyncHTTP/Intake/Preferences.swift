package import HTTPTypes
import SyncModel

/// A push's preferences in `Prefer` (RFC 7240).
///
/// Unknown and invalid preferences are ignored. If a preference is repeated, the first one applies.
package struct Preferences: Sendable, Equatable {
    /// `handling`: if true, either all mutations are accepted or no mutation is. If false or nil (not requested), each
    /// mutation is accepted or rejected separately.
    private(set) var isStrict: Bool?
    /// `wait`: the time for which the response may be delayed.
    private(set) var wait: Duration?

    package init(_ headers: HTTPFields, longestWait: Duration) {
        self.init(headers[.prefer] ?? "", longestWait: longestWait)
    }

    /// Reads the value of the field. Several fields are one list, joined by commas.
    package init(_ text: String, longestWait: Duration) {
        var seen: Set<ByteExactString> = []
        for preference in PreferenceList(text) where seen.insert(preference.name).inserted {
            switch preference.name {
            case "handling":
                switch preference.value.lowercased() {
                case "strict": isStrict = true
                case "lenient": isStrict = false
                default: break
                }
            case "wait":
                if let seconds = Self.seconds(preference.value) { wait = min(.seconds(seconds), longestWait) }
            default:
                break
            }
        }
    }

    /// The value of `Preference-Applied`: the honored preferences, with the applied values.
    package var applied: String? {
        var honoured: [String] = []
        if let isStrict { honoured.append(isStrict ? "handling=strict" : "handling=lenient") }
        if let wait { honoured.append("wait=\(wait.components.seconds)") }
        return honoured.isEmpty ? nil : honoured.joined(separator: ", ")
    }

    /// The preferences without `wait`, for a response that is never delayed.
    package var withoutWait: Preferences {
        var preferences = self
        preferences.wait = nil
        return preferences
    }

    private static func seconds(_ text: String) -> Int? {
        guard !text.isEmpty, text.utf8.count <= 9, text.utf8.allSatisfy({ (48...57).contains($0) }) else { return nil }
        return Int(text)
    }
}

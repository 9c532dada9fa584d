public import FoundationEssentials

/// The replacement of a UUID.
public enum JSONReplacement: Sendable, Equatable {
    /// A string of 36 lower-case characters.
    case uuid(UUID)
    /// A string, escaped as JSON needs it.
    case string(String)
    case integer(Int64)
    /// An integer beyond `Int64`: decimal digits, perhaps behind a minus sign.
    case digits(String)

    /// Compares strings by their bytes.
    public static func == (left: JSONReplacement, right: JSONReplacement) -> Bool {
        switch (left, right) {
        case (.uuid(let left), .uuid(let right)): left == right
        case (.string(let left), .string(let right)): left == right
        case (.integer(let left), .integer(let right)): left == right
        case (.digits(let left), .digits(let right)): left == right
        default: false
        }
    }
}

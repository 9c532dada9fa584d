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
}

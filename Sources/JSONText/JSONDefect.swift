/// A part of a text that JSON's grammar allows and the gateway rejects.
///
/// The gateway can't store it or could understand it in several ways.
public struct JSONDefect: Sendable, Equatable {
    /// The numbers are those of `csj_defect_kind`.
    public enum Kind: UInt32, Sendable {
        /// A name that repeats that of an earlier member, once both are unescaped.
        ///
        /// RFC 8259, section 4.
        case duplicateMember = 0
        /// A string or name with U+0000, which PostgreSQL's text can't hold.
        case nulCharacter
        /// A string or name with half of a surrogate pair, which is no Unicode text.
        case loneSurrogate
        /// A number outside the range of PostgreSQL's numeric.
        ///
        /// More than 131,072 digits before or 16,383 after the decimal point.
        case numberOutOfRange
    }

    public let kind: Kind
    /// The place of the faulty value or name among the nodes of the whole text, from 0.
    public let nodeIndex: Int
    /// The JSON Pointer to the faulty value, or to the value of the faulty name.
    ///
    /// RFC 6901. It starts at the value whose defects were requested. A pointer of more than a kilobyte is cut, and
    /// ends in "…".
    public let pointer: String

    /// Compares the pointer's bytes.
    public static func == (left: JSONDefect, right: JSONDefect) -> Bool {
        left.kind == right.kind && left.nodeIndex == right.nodeIndex && left.pointer == right.pointer
    }

    /// The defect, as a sentence for the person who sent the text.
    public var explanation: String {
        switch kind {
        case .duplicateMember: "The object has more than one member of this name."
        case .nulCharacter: "The character U+0000 is not allowed."
        case .loneSurrogate: "A surrogate escape stands alone, so this is not Unicode text."
        case .numberOutOfRange:
            "The number has more than 131072 digits before or 16383 digits after the decimal point."
        }
    }
}

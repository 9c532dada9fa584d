import Foundation

enum Terminal {
    /// Writes immediately, and not at the end of a line or of a page, as `print` does.
    static func write(_ text: String) { FileHandle.standardOutput.write(Data(text.utf8)) }
}

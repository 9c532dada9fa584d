import Foundation

enum Terminal {
    /// Writes immediately, unlike `print`, which buffers.
    static func write(_ text: String) { FileHandle.standardOutput.write(Data(text.utf8)) }
}

import Foundation
import JSONText

/// A file that has to contain a JSON object.
enum JSONFile {
    /// - Parameters:
    ///   - name: how an error begins: `The configuration file /etc/sluice.json`.
    ///   - verb: the word between the name and the defect.
    /// - Throws: the defect, with line and column if the file is not JSON.
    static func object(
        _ data: Data,
        _ name: String,
        _ verb: String = "is"
    ) throws(ConfigurationError) -> JSONTree {
        if let defect = FileForm.defect(data) { throw ConfigurationError("\(name) \(defect).") }
        let bytes = [UInt8](FileForm.withoutMark(data))
        let tree: JSONTree
        do throws(JSONParseError) {
            tree = try JSONTree(parsing: bytes)
        } catch {
            throw ConfigurationError("\(name) \(verb) not JSON: \(error.explanation(in: bytes))")
        }
        guard tree.root.members != nil else { throw ConfigurationError("\(name) \(verb) not a JSON object.") }
        return tree
    }
}

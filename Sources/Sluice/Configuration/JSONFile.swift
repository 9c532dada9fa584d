import Foundation
import JSONText

/// A file that is to hold a JSON object.
enum JSONFile {
    /// - Parameters:
    ///   - name: how a complaint begins: `The configuration file /etc/sluice.json`.
    ///   - verb: what stands between the name and what is wrong.
    /// - Throws: what is wrong, with line and column where it is no JSON.
    static func object(
        _ data: Data,
        _ name: String,
        _ verb: String = "is"
    ) throws(ConfigurationError) -> JSONTree {
        let bytes = [UInt8](data)
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

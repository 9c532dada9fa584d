import Foundation
import JSONText
import SyncModel

/// The environment, or a file. All values are texts until they are checked.
struct SettingsSource: Sendable {
    /// The values by the setting's name; nil if a value is neither a text nor a number.
    private let values: [String: String?]
    /// The file's path; nil for the environment.
    private let path: String?

    /// The variables that begin with `SLUICE_` and are in capitals. An empty one counts as absent.
    static func environment(_ variables: [String: String]) -> SettingsSource {
        var values: [String: String?] = [:]
        for (variable, value) in variables where variable.hasPrefix(Setting.prefix) && !value.isEmpty {
            guard variable == variable.uppercased() else { continue }
            values[variable.dropFirst(Setting.prefix.count).lowercased()] = value
        }
        return SettingsSource(values: values, path: nil)
    }

    /// A JSON object whose members are the settings' names in lower case, without `SLUICE_`.
    static func file(_ path: String) throws(ConfigurationError) -> SettingsSource {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw ConfigurationError("The configuration file \(path) cannot be read.")
        }
        let tree = try JSONFile.object(data, "The configuration file \(path)")
        let members = tree.root.members.map(Array.init) ?? []
        if let defect = tree.defects.first {
            throw ConfigurationError("In the configuration file \(path), at \(defect.pointer): \(defect.explanation)")
        }
        let values = members.map { ($0.name.string, text(of: $0.value)) }
        return SettingsSource(values: Dictionary(values) { first, _ in first }, path: path)
    }

    private static func text(of value: JSONValue) -> String? {
        value.kind == .number ? String(decoding: value.raw, as: UTF8.self) : value.string
    }

    /// Returns the value of this source, as a text; nil if it has no value.
    func text(_ name: String) throws(ConfigurationError) -> String? {
        guard let value = values[name] else { return nil }
        guard let value else { throw ConfigurationError("\(label(name)) must be a text or a number.") }
        return value
    }

    /// A setting's name here.
    func label(_ name: String) -> String {
        if let path { return "\"\(name)\" in \(path)" }
        return Setting.variable(for: name)
    }

    /// Warnings about unknown names, each with the known one that may have been meant.
    var unknownNames: [String] {
        values.keys.sorted().filter { !Setting.knownNames.contains($0) }.map { name in
            let nearest = NearestName.of(name, among: Setting.knownNames)
            let label = label(name)
            guard let nearest else { return "\(label) is not a setting and has no effect." }
            let meant = path == nil ? Setting.variable(for: nearest) : "\"\(nearest)\""
            return "\(label) is not a setting and has no effect; did you mean \(meant)?"
        }
    }
}

import Configuration
import Foundation
import JSONText

/// Where settings come from: the environment, or a file. All values are texts until they are checked.
struct SettingsSource: Sendable {
    private let provider: any ConfigProvider
    /// The names that are set here.
    let names: [String]
    /// The file's path; nil for the environment.
    private let path: String?

    /// The variables that begin with `SLUICE_`.
    static func environment(_ variables: [String: String]) -> SettingsSource {
        let ours = variables.filter { $0.key.hasPrefix(Setting.prefix) }
        return SettingsSource(
            provider: EnvironmentVariablesProvider(environmentVariables: ours).prefixKeys(with: "sluice"),
            names: ours.keys.sorted().map { $0.dropFirst(Setting.prefix.count).lowercased() },
            path: nil
        )
    }

    /// A JSON object whose members are the settings' names in lower case, without `SLUICE_`.
    static func file(_ path: String) async throws(ConfigurationError) -> SettingsSource {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw ConfigurationError("The configuration file \(path) cannot be read.")
        }
        guard let members = try? JSONTree(parsing: [UInt8](data)).root.members else {
            throw ConfigurationError("The configuration file \(path) is not a JSON object.")
        }
        let location: [AbsoluteConfigKey: ConfigValue] = ["filePath": ConfigValue(.string(path), isSecret: false)]
        do {
            return SettingsSource(
                provider: try await FileProvider<JSONSnapshot>(
                    config: ConfigReader(provider: InMemoryProvider(values: location))
                ),
                names: members.map { $0.name.string },
                path: path
            )
        } catch {
            // The library's error might show values.
            throw ConfigurationError("The configuration file \(path) holds something else than texts and numbers.")
        }
    }

    /// What is set here, as a text; nil when nothing is. A variable that is empty is not set.
    func text(_ name: String) throws(ConfigurationError) -> String? {
        let key = AbsoluteConfigKey([name])
        for type in [ConfigType.string, .int, .bool, .double] {
            guard let found = try? provider.value(forKey: key, type: type) else { continue }
            switch found.value?.content {
            case .string(let text): return text.isEmpty && path == nil ? nil : text
            case .int(let number): return String(number)
            case .bool(let flag): return String(flag)
            case .double(let number): return String(number)
            default: return nil
            }
        }
        throw ConfigurationError("\(label(name)) must be a text or a number.")
    }

    /// How a setting is called here.
    func label(_ name: String) -> String {
        if let path { return "\"\(name)\" in \(path)" }
        return Setting.variable(for: name)
    }

    /// Warnings about names that mean nothing, each with the one that may have been meant.
    var unknownNames: [String] {
        names.filter { !Setting.knownNames.contains($0) }.map { name in
            let nearest = NearestName.of(name, among: Setting.knownNames)
            let label = label(name)
            guard let nearest else { return "\(label) is not a setting and has no effect." }
            let meant = path == nil ? Setting.variable(for: nearest) : "\"\(nearest)\""
            return "\(label) is not a setting and has no effect; is \(meant) meant?"
        }
    }
}

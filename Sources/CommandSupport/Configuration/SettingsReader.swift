import FoundationEssentials
import JSONText
import SyncModel

/// Looks up settings and collects their problems.
///
/// The environment takes precedence over a file, and a file over the default.
struct SettingsReader {
    private let sources: [SettingsSource]
    private(set) var problems: [String] = []
    /// Each setting that was read, with the value that operators see.
    private(set) var inForce: [(name: String, value: String)] = []

    init(sources: [SettingsSource]) {
        self.sources = sources
    }

    /// Returns the checked value in force; nil if there is no value. For an invalid value, reports a problem and
    /// returns nil.
    mutating func text(_ setting: Setting) -> String? {
        var value = setting.fallback
        do throws(ConfigurationError) {
            if let (found, label) = try lookUp(setting) {
                guard setting.form.accepts(found) else {
                    throw ConfigurationError(Self.refusal(of: found, label: label, setting))
                }
                value = found
            }
        } catch {
            problems += error.problems
            value = nil
        }
        // a default is shown even for a secret setting, because the default is public
        let isDefault = value != nil && value == setting.fallback
        inForce.append((setting.name, isDefault ? value ?? "" : Self.shown(value, setting)))
        return value
    }

    /// Whether a source has a value for the setting, valid or not.
    func isSet(_ setting: Setting) -> Bool {
        do throws(ConfigurationError) {
            return try lookUp(setting) != nil
        } catch {
            return true
        }
    }

    /// Reports a problem of a combination of settings if the condition is false.
    mutating func require(_ condition: Bool, _ problem: String) {
        // If single settings are invalid, problems of their combinations are not reported.
        if !condition, problems.isEmpty { problems.append(problem) }
    }

    /// Adds a problem with the file or the address that a setting names.
    mutating func record(_ problem: String) { problems.append(problem) }

    private func lookUp(_ setting: Setting) throws(ConfigurationError) -> (String, label: String)? {
        for source in sources {
            let value = try source.text(setting.name)
            guard let fileName = setting.fileName, let path = try source.text(fileName) else {
                if let value { return (value, source.label(setting.name)) }
                continue
            }
            let (label, fileLabel) = (source.label(setting.name), source.label(fileName))
            guard value == nil else { throw ConfigurationError("\(label) and \(fileLabel) are both set; choose one.") }
            return (try Self.contents(of: path, label: fileLabel), fileLabel)
        }
        return nil
    }

    /// Returns a file's text without the line ends that editors append.
    private static func contents(of path: String, label: String) throws(ConfigurationError) -> String {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw ConfigurationError("\(label) names \(path), which cannot be read.")
        }
        if let defect = FileForm.defect(ofSecret: data) {
            throw ConfigurationError("\(label) names \(path), which \(defect).")
        }
        guard let text = String(bytes: data, encoding: .utf8) else {
            throw ConfigurationError("\(label) names \(path), which is not UTF-8 text.")
        }
        let trimmed = String(text.reversed().drop(while: \.isNewline).reversed())
        if trimmed.isEmpty { throw ConfigurationError("\(label) names \(path), which is empty.") }
        return trimmed
    }

    private static func refusal(of value: String, label: String, _ setting: Setting) -> String {
        switch setting.form {
        // an invalid URL may contain a password
        case .keySetURL, .receiverURL: return "\(label) must be \(setting.form.allowed)."
        default: if setting.isSecret { return "\(label) must be \(setting.form.allowed)." }
        }
        return "\(label) is \"\(TerminalText.of(value))\", but must be \(setting.form.allowed)."
    }

    private static func shown(_ value: String?, _ setting: Setting) -> String {
        guard let value else { return setting.fallbackHint ?? "not set" }
        if case .keySetURL = setting.form { return KeySetURL.shown(value) }
        return setting.isSecret ? "set" : value
    }
}

/// The environment, or a file. All values are texts until they are checked.
struct SettingsSource: Sendable {
    /// The values by the setting's name; a value that is neither a text nor a number is nil.
    private let values: [String: String?]
    /// The file's path; nil for the environment.
    private let path: String?

    /// The variables in capitals that begin with `SLUICE_`, and the variables of OpenTelemetry that are settings.
    ///
    /// An empty variable is treated as absent.
    static func environment(_ variables: [String: String]) -> SettingsSource {
        var values: [String: String?] = [:]
        for name in Setting.knownNames where name.hasPrefix(Setting.sharedPrefix) {
            if let value = variables[Setting.variable(for: name)], !value.isEmpty { values[name] = value }
        }
        for (variable, value) in variables where variable.hasPrefix(Setting.prefix) && !value.isEmpty {
            guard variable == variable.uppercased() else { continue }
            values[variable.dropFirst(Setting.prefix.count).lowercased()] = value
        }
        return SettingsSource(values: values, path: nil)
    }

    /// A JSON file whose members are the settings' names in lower case, without `SLUICE_`.
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

    /// A setting's name in this source, for messages.
    func label(_ name: String) -> String {
        if let path { return "\"\(name)\" in \(path)" }
        return Setting.variable(for: name)
    }

    /// Warnings about unknown names, each with the known name that may have been intended.
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

/// Invalid settings. Each problem names the setting and the allowed values; no problem contains a secret.
package struct ConfigurationError: Error, Sendable, CustomStringConvertible {
    /// Whole sentences, in the order of the settings.
    package let problems: [String]

    init(_ problems: [String]) {
        self.problems = problems
    }

    init(_ problem: String) {
        self.init([problem])
    }

    package var description: String { problems.joined(separator: " ") }
}

/// Collects the problems of several settings that are read in sequence, so that all are reported together.
struct ConfigurationProblems {
    private var problems: [String] = []

    /// Returns the result of `body`. If `body` throws, collects its problems and returns nil.
    mutating func gather<Value>(_ body: () throws(ConfigurationError) -> Value) -> Value? {
        do throws(ConfigurationError) {
            return try body()
        } catch {
            problems += error.problems
            return nil
        }
    }

    /// Returns the result of `body`. If `body` throws, collects its problems and returns nil.
    mutating func gather<Value>(_ body: () async throws(ConfigurationError) -> Value) async -> Value? {
        do throws(ConfigurationError) {
            return try await body()
        } catch {
            problems += error.problems
            return nil
        }
    }

    /// - Throws: all collected problems, if there are any.
    func check() throws(ConfigurationError) {
        if !problems.isEmpty { throw ConfigurationError(problems) }
    }
}

/// Headers in one text, as in `OTEL_EXPORTER_OTLP_HEADERS`: `name=value`, separated by commas.
struct HeaderList {
    private(set) var headers: [(name: String, value: String)] = []

    /// Reads a text, in which values may have percent-encoded characters. Returns nil if a part of the text is not a
    /// header.
    init?(_ text: String) {
        for part in text.utf8.split(separator: UInt8(ascii: ",")) {
            let pair = part.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard pair.count == 2, PercentEncoding.isWellFormed(pair[1]),
                let value = String(validating: PercentEncoding.decoded(pair[1]), as: UTF8.self)?.trimmed,
                case let name = String(Substring(pair[0])).trimmed, HeaderField.isName(name),
                UpstreamRequest.canCarry(value)
            else { return nil }
            headers.append((name, value))
        }
        if headers.isEmpty { return nil }
    }
}

import Foundation
import SyncModel

/// Looks settings up, the environment before a file before the default, and collects their problems.
struct SettingsReader {
    private let sources: [SettingsSource]
    private(set) var problems: [String] = []
    /// Each setting read, in the form to be shown.
    private(set) var inForce: [(name: String, value: String)] = []

    init(sources: [SettingsSource]) {
        self.sources = sources
    }

    /// Returns the checked value in force; nil if there is no value, or an invalid one, which is reported as a problem.
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
        // a default is no secret
        let isDefault = value != nil && value == setting.fallback
        inForce.append((setting.name, isDefault ? value ?? "" : Self.shown(value, setting)))
        return value
    }

    /// Whether a source has a value for it, valid or not.
    func isSet(_ setting: Setting) -> Bool {
        do throws(ConfigurationError) {
            return try lookUp(setting) != nil
        } catch {
            return true
        }
    }

    /// Notes a problem of several settings together.
    mutating func require(_ condition: Bool, _ problem: String) {
        // If single settings are wrong, a problem with their combination is not reported.
        if !condition, problems.isEmpty { problems.append(problem) }
    }

    /// Adds a problem of a file or address that a setting names.
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

    /// A file's text without the line ends that editors put at its end.
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
        if case .keySetURL = setting.form { return "\(label) must be \(setting.form.allowed)." }
        if setting.isSecret { return "\(label) must be \(setting.form.allowed)." }
        return "\(label) is \"\(TerminalText.of(value))\", but must be \(setting.form.allowed)."
    }

    private static func shown(_ value: String?, _ setting: Setting) -> String {
        guard let value else { return setting.fallbackHint ?? "not set" }
        if case .keySetURL = setting.form { return KeySetURL.shown(value) }
        return setting.isSecret ? "set" : value
    }
}

import Foundation
import JSONText
import TestSupport
import Testing

/// A recipe of docs/identity.md: the settings for a provider, and the shape of its tokens.
struct Recipe: Sendable, CustomTestStringConvertible {
    let provider: String
    let settings: [String: String]
    /// The payload as JSON text, without the times.
    let payload: String

    var testDescription: String { provider }

    /// All recipes of the page.
    static func all() throws -> [Recipe] {
        let page = try Repository.text("docs/identity.md")
        let recipes = try #require(
            page.components(separatedBy: "\n## Recipes\n").last?.components(separatedBy: "\n## ").first
        )
        return try recipes.components(separatedBy: "\n### ").dropFirst().map { section in
            let provider = String(section.prefix { $0 != "\n" })
            return Recipe(
                provider: provider,
                settings: try settings(#require(block("sh", of: section), "\(provider)")),
                payload: try #require(block("json", of: section), "\(provider)")
            )
        }
    }

    static func named(_ provider: String) throws -> Recipe {
        try #require(all().first { $0.provider == provider }, "\(provider) has no recipe")
    }

    private static func block(_ kind: String, of section: String) -> String? {
        section.components(separatedBy: "```\(kind)\n").dropFirst().first?.components(separatedBy: "```").first
    }

    private static func settings(_ lines: String) throws -> [String: String] {
        var settings: [String: String] = [:]
        for line in lines.split(separator: "\n") {
            let parts = line.split(separator: "=", maxSplits: 1)
            try #require(parts.count == 2 && parts[0].hasPrefix("SLUICE_"), "\(line)")
            settings[String(parts[0])] = parts[1].trimmingCharacters(in: ["'"])
        }
        return settings
    }

    /// The settings with keys from a file instead of the provider's own.
    func settings(withKeysIn file: String) -> [String: String] {
        var settings = settings
        settings["SLUICE_JWT_JWKS_URL"] = nil
        settings["SLUICE_JWT_KEYS_FILE"] = file
        return settings
    }

    /// Returns a token with the recipe's payload, signed by a key.
    ///
    /// - Parameter change: changes the payload's text.
    func token(_ key: IdentityKey, at now: Int64, _ change: (String) -> String = { $0 }) throws -> String {
        let members = change(payload).trimmingCharacters(in: .whitespacesAndNewlines).dropFirst()
        return try key.token(claims: #"{"iat":\#(now),"exp":\#(now + 300),\#(members)"#)
    }
}

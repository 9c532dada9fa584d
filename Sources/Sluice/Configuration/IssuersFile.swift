import Foundation
import JSONText
import SyncModel
import Tokens

/// The file of issuers: `{"issuers": [{"issuer", "jwks_url" | "keys_file" | "secret_file", "audience"?, "user_claim"?,
/// "organization_claim"?, "exclusive_keys"?, "organizations": [UUID…] | "any"}]}`. Each mistake is reported with its
/// place, and without the value, which may be a secret that got into the wrong line.
struct IssuersFile {
    static let maximumIssuers = 100
    static let maximumOrganizations = 10_000
    private static let maximumText = 1_000
    private static let maximumBytes = 8_388_608

    private static let members = [
        "issuer", "jwks_url", "keys_file", "secret_file", "audience", "exclusive_keys", "user_claim",
        "organization_claim", "organizations",
    ]

    let path: String
    /// Values for members that an issuer omits.
    let defaults: TrustedIssuer
    /// Whether public keys sign for this gateway alone, where an issuer does not say.
    let hasExclusiveKeys: Bool

    /// - Parameter own: the name of the issuer from other settings; it may not come again.
    func issuers(beside own: String?) throws(ConfigurationError) -> [TrustedIssuer] {
        let root = try root()
        try requireNames(of: root, ["issuers"], at: "")
        guard let list = root["issuers"], let elements = list.elements else {
            throw problem("/issuers", "must be a list of issuers")
        }
        guard (1...Self.maximumIssuers).contains(elements.count) else {
            throw problem("/issuers", "must hold 1 to \(Self.maximumIssuers) issuers")
        }
        var issuers: [TrustedIssuer] = []
        for (index, element) in elements.enumerated() {
            let place = "/issuers/\(index)"
            let issuer = try issuer(element, at: place)
            if issuer.issuer == own {
                throw problem(place + "/issuer", "is the issuer that \(Setting.jwtIssuer.variable) names already")
            }
            if let other = issuers.firstIndex(where: { $0.issuer == issuer.issuer }) {
                throw problem(place + "/issuer", "is the same as /issuers/\(other)/issuer")
            }
            issuers.append(issuer)
        }
        return issuers
    }

    private func root() throws(ConfigurationError) -> JSONValue {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw ConfigurationError("\(Setting.jwtIssuersFile.variable) names \(path), which cannot be read.")
        }
        guard data.count <= Self.maximumBytes else {
            throw ConfigurationError("\(Setting.jwtIssuersFile.variable) names \(path), which is too large.")
        }
        let tree = try JSONFile.object(data, "\(Setting.jwtIssuersFile.variable) names \(path), which")
        if let defect = tree.defects.first { throw problem(defect.pointer, "cannot be taken: \(defect.explanation)") }
        return tree.root
    }

    private func issuer(_ value: JSONValue, at place: String) throws(ConfigurationError) -> TrustedIssuer {
        guard value.members != nil else { throw problem(place, "must be an object") }
        try requireNames(of: value, Self.members, at: place)
        guard let name = try text("issuer", of: value, at: place) else {
            throw problem(place + "/issuer", "is missing")
        }
        var issuer = TrustedIssuer(
            issuer: name,
            audience: try text("audience", of: value, at: place) ?? defaults.audience,
            userClaim: try text("user_claim", of: value, at: place) ?? defaults.userClaim,
            organizationClaim: try text("organization_claim", of: value, at: place) ?? defaults.organizationClaim,
            organizations: try organizations(value, at: place)
        )
        guard issuer.userClaim != issuer.organizationClaim else {
            throw problem(place, "has one claim for both the user and the organization")
        }
        let url = try text("jwks_url", of: value, at: place)
        let keysFile = try text("keys_file", of: value, at: place)
        let secretFile = try text("secret_file", of: value, at: place)
        switch (url, keysFile, secretFile) {
        case (let url?, nil, nil):
            if let reason = KeySetURL.problem(url) { throw problem(place + "/jwks_url", reason) }
            issuer.jwksURL = url
        case (nil, let file?, nil):
            let text = try contents(of: file, at: place + "/keys_file")
            issuer.keys = [TokenKeySource(name: resolved(file), text: text)]
        case (nil, nil, let file?):
            issuer.secret = try secret(in: file, at: place + "/secret_file")
        default:
            throw problem(place, "must have one of jwks_url, keys_file and secret_file")
        }
        let isExclusive = try flag("exclusive_keys", of: value, at: place) ?? hasExclusiveKeys
        guard issuer.secret != nil || issuer.audience != nil || isExclusive else {
            let reason = "is missing: the issuer may sign for others with its keys, and any such token would be taken"
            throw problem(place + "/audience", reason + #" (if it does not, say "exclusive_keys": true)"#)
        }
        return issuer
    }

    private func flag(_ name: StaticString, of value: JSONValue, at place: String) throws(ConfigurationError) -> Bool? {
        guard let member = value[name] else { return nil }
        guard let flag = member.bool else { throw problem("\(place)/\(name)", "must be true or false") }
        return flag
    }

    private func organizations(
        _ value: JSONValue,
        at place: String
    ) throws(ConfigurationError) -> TrustedIssuer.Organizations {
        let place = place + "/organizations"
        guard let organizations = value["organizations"] else {
            throw problem(place, #"is missing: list the organizations that it speaks for, or say "any""#)
        }
        if organizations.stringEquals("any") { return .any }
        guard let elements = organizations.elements else {
            throw problem(place, #"must be a list of organizations' UUIDs, or "any""#)
        }
        guard (1...Self.maximumOrganizations).contains(elements.count) else {
            throw problem(place, "must hold 1 to \(Self.maximumOrganizations) organizations")
        }
        var ids: Set<UUID> = []
        for (index, element) in elements.enumerated() {
            guard let id = element.uuid else { throw problem("\(place)/\(index)", "must be a UUID") }
            guard ids.insert(id).inserted else { throw problem("\(place)/\(index)", "comes twice") }
        }
        return .only(ids)
    }

    private func text(_ name: String, of value: JSONValue, at place: String) throws(ConfigurationError) -> String? {
        guard let member = value.members?.first(where: { $0.name.string == name })?.value else { return nil }
        guard let text = member.string, (1...Self.maximumText).contains(text.utf8.count) else {
            throw problem("\(place)/\(name)", "must be a text of 1 to \(Self.maximumText) bytes")
        }
        return text
    }

    private func requireNames(
        of value: JSONValue,
        _ names: [String],
        at place: String
    ) throws(ConfigurationError) {
        for member in value.members.map(Array.init) ?? [] where !names.contains(member.name.string) {
            let place = JSONPointer(place).appending(member: member.name.string).text
            let nearest = NearestName.of(member.name.string, among: names)
            throw problem(place, "means nothing here" + (nearest.map { "; is \($0) meant?" } ?? ""))
        }
    }

    // MARK: - Files

    private func secret(in file: String, at place: String) throws(ConfigurationError) -> [UInt8] {
        let text = try contents(of: file, at: place)
        let secret = Array(String(text.reversed().drop(while: \.isNewline).reversed()).utf8)
        guard secret.count >= 16 else {
            throw problem(place, "names a file with \(secret.count) bytes; a secret has at least 16, better 32 or more")
        }
        return secret
    }

    private func contents(of file: String, at place: String) throws(ConfigurationError) -> String {
        guard let data = FileManager.default.contents(atPath: resolved(file)),
            let text = String(bytes: data, encoding: .utf8)
        else { throw problem(place, "names a file that cannot be read") }
        return text
    }

    /// Relative to the folder of this file.
    private func resolved(_ file: String) -> String {
        if file.hasPrefix("/") { return file }
        return URL(filePath: path).deletingLastPathComponent().appending(path: file).path
    }

    private func problem(_ pointer: String, _ text: String) -> ConfigurationError {
        ConfigurationError("\(Setting.jwtIssuersFile.variable) names \(path), in which \(pointer) \(text).")
    }
}

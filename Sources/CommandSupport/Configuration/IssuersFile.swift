import FoundationEssentials
import JSONText
import SyncModel
import Tokens

/// The file of issuers.
///
/// It has the form `{"issuers": [{"issuer", "jwks_url" | "keys_file" | "secret_file", "audience"?, "user_claim"?,
/// "organization_claim" | "organization_keys" | "organization"?, "user_ids"?, "organization_ids"?, "audience_claim"?,
/// "channel_claim"?, "channel_prefix"?, "channel_role"?, "namespace"?, "exclusive_keys"?, "organizations": [UUID…] |
/// "any"}]}`.
///
/// Each mistake is reported with its place, but without the value, because the value may be a secret that is in the
/// wrong place.
struct IssuersFile {
    static let maximumIssuers = 100
    static let maximumOrganizations = 10_000
    private static let maximumText = 1_000
    private static let maximumNamespace = 255
    private static let maximumBytes = 8_388_608

    private static let members = [
        "issuer", "jwks_url", "keys_file", "secret_file", "audience", "audience_claim", "exclusive_keys", "user_claim",
        "user_ids", "organization_claim", "organization_keys", "organization", "organization_ids", "channel_claim",
        "channel_prefix", "channel_role", "namespace",
        "organizations",
    ]

    let path: String
    /// Values for members that an issuer omits.
    let defaults: TrustedIssuer
    /// The default of `exclusive_keys`: whether the issuers use their keys only for tokens of this gateway.
    let hasExclusiveKeys: Bool

    /// - Parameter own: the name of the issuer that other settings configure. The file must not contain this issuer.
    func issuers(excluding own: String?) throws(ConfigurationError) -> [TrustedIssuer] {
        let root = try root()
        try requireNames(of: root, ["issuers"], at: "")
        guard let list = root["issuers"], let elements = list.elements else {
            throw problem("/issuers", "must be a list of issuers")
        }
        guard (1...Self.maximumIssuers).contains(elements.count) else {
            throw problem("/issuers", "must contain 1 to \(Self.maximumIssuers) issuers")
        }
        var issuers: [TrustedIssuer?] = []
        var problems = ConfigurationProblems()
        for (index, element) in elements.enumerated() {
            let place = "/issuers/\(index)"
            let found = problems.gather { () throws(ConfigurationError) -> TrustedIssuer in
                let issuer = try issuer(element, at: place)
                if issuer.issuer == own.map({ ByteExactString($0) }) {
                    throw problem(place + "/issuer", "is already configured by \(Setting.jwtIssuer.variable)")
                }
                if let other = issuers.firstIndex(where: { $0?.issuer == issuer.issuer }) {
                    throw problem(place + "/issuer", "is the same as /issuers/\(other)/issuer")
                }
                return issuer
            }
            issuers.append(found)
        }
        try problems.check()
        return issuers.compactMap(\.self)
    }

    private func root() throws(ConfigurationError) -> JSONValue {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw ConfigurationError("\(Setting.jwtIssuersFile.variable) names \(path), which cannot be read.")
        }
        guard data.count <= Self.maximumBytes else {
            throw ConfigurationError("\(Setting.jwtIssuersFile.variable) names \(path), which is too large.")
        }
        let tree = try JSONFile.object(data, "\(Setting.jwtIssuersFile.variable) names \(path), which")
        if let defect = tree.defects.first { throw problem(defect.pointer, "is invalid: \(defect.explanation)") }
        return tree.root
    }

    private func issuer(_ value: JSONValue, at place: String) throws(ConfigurationError) -> TrustedIssuer {
        guard value.members != nil else { throw problem(place, "must be an object") }
        try requireNames(of: value, Self.members, at: place)
        guard let name = try text("issuer", of: value, at: place) else {
            throw problem(place + "/issuer", "is missing")
        }
        let audience = try text("audience", of: value, at: place) ?? defaults.audience?.string
        let audienceClaim = try claim("audience_claim", of: value, at: place) ?? defaults.audienceClaim
        var issuer = TrustedIssuer(
            issuer: name,
            audience: audience,
            places: try places(of: value, at: place),
            namespace: try text("namespace", of: value, at: place, most: Self.maximumNamespace),
            organizations: .any
        )
        issuer.audienceClaim = audienceClaim
        issuer.channels = try channels(of: value, at: place)
        issuer.organizations = try organizations(value, issuer.places.organization, at: place)
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
            let reason =
                "is missing: if the issuer signs for others with the same keys, any of those tokens would be accepted"
            throw problem(place + "/audience", reason + #" (if it does not, set "exclusive_keys": true)"#)
        }
        return issuer
    }

    private func flag(_ name: StaticString, of value: JSONValue, at place: String) throws(ConfigurationError) -> Bool? {
        guard let member = value[name] else { return nil }
        guard let flag = member.bool else { throw problem("\(place)/\(name)", "must be true or false") }
        return flag
    }

    /// Returns the claims that contain a token's user and organization. For a claim that the file omits, the settings'
    /// claim is used.
    private func places(of value: JSONValue, at place: String) throws(ConfigurationError) -> IdentityPlaces {
        var places = defaults.places
        if let user = try claim("user_claim", of: value, at: place) { places.user = user }
        let name = try claim("organization_claim", of: value, at: place)
        let keys = try claim("organization_keys", of: value, at: place)
        switch (name, keys, value["organization"]) {
        case (nil, nil, nil): break
        case (let name?, nil, nil): places.organization = .claim(name)
        case (nil, let keys?, nil): places.organization = .keys(keys)
        case (nil, nil, let organization?):
            guard let id = organization.uuid else { throw problem(place + "/organization", "must be a UUID") }
            places.organization = .fixed(id)
        default:
            throw problem(place, "must have at most one of organization_claim, organization_keys and organization")
        }
        guard places.organization.place != places.user else {
            throw problem(place, "uses the same claim for the user and the organization")
        }
        places.userForm = try choice("user_ids", of: value, at: place) ?? places.userForm
        places.organizationForm = try choice("organization_ids", of: value, at: place) ?? places.organizationForm
        return places
    }

    /// Returns the claim with the channels of a token's user; without `channel_claim`, the settings' claim is used.
    private func channels(of value: JSONValue, at place: String) throws(ConfigurationError) -> ChannelClaim? {
        let claim = try claim("channel_claim", of: value, at: place)
        let prefix = try text("channel_prefix", of: value, at: place, most: ChannelName.maximumBytes)
        let role: ChannelRole? = try choice("channel_role", of: value, at: place)
        guard var channels = claim.map({ ChannelClaim($0) }) ?? defaults.channels else {
            guard prefix == nil, role == nil else { throw problem(place, "must have channel_claim as well") }
            return nil
        }
        if let prefix { channels.prefix = prefix }
        if let role { channels.role = role }
        return channels
    }

    private func claim(_ name: String, of value: JSONValue, at place: String) throws(ConfigurationError) -> ClaimPlace?
    {
        guard let text = try text(name, of: value, at: place) else { return nil }
        do throws(SingularQueryError) {
            return try ClaimPlace(parsing: text)
        } catch {
            throw problem("\(place)/\(name)", "is neither a name nor a path of names and indices: it \(error)")
        }
    }

    private func choice<Choice: RawRepresentable & CaseIterable>(
        _ name: String,
        of value: JSONValue,
        at place: String
    ) throws(ConfigurationError) -> Choice? where Choice.RawValue == String {
        guard let text = try text(name, of: value, at: place) else { return nil }
        if let choice = Choice(rawValue: text) { return choice }
        throw problem("\(place)/\(name)", "must be one of \(Choice.allCases.map(\.rawValue).joined(separator: ", "))")
    }

    private func organizations(
        _ value: JSONValue,
        _ organization: IdentityPlaces.Organization,
        at place: String
    ) throws(ConfigurationError) -> TrustedIssuer.Organizations {
        guard case .fixed(let id) = organization else { return try organizations(value, at: place) }
        // all tokens of the issuer are for this organization, so the organization need not be listed
        guard value["organizations"] != nil else { return .only([id]) }
        guard try organizations(value, at: place).covers(id) else {
            throw problem(place + "/organization", "is not among its organizations")
        }
        return .only([id])
    }

    private func organizations(
        _ value: JSONValue,
        at place: String
    ) throws(ConfigurationError) -> TrustedIssuer.Organizations {
        let place = place + "/organizations"
        guard let organizations = value["organizations"] else {
            throw problem(place, #"is missing: list the organizations for which it issues tokens, or set "any""#)
        }
        if organizations.stringEquals("any") { return .any }
        guard let elements = organizations.elements else {
            throw problem(place, #"must be a list of organizations' UUIDs, or "any""#)
        }
        guard (1...Self.maximumOrganizations).contains(elements.count) else {
            throw problem(place, "must contain 1 to \(Self.maximumOrganizations) organizations")
        }
        var ids: Set<UUID> = []
        for (index, element) in elements.enumerated() {
            guard let id = element.uuid else { throw problem("\(place)/\(index)", "must be a UUID") }
            guard ids.insert(id).inserted else { throw problem("\(place)/\(index)", "comes twice") }
        }
        return .only(ids)
    }

    private func text(
        _ name: String,
        of value: JSONValue,
        at place: String,
        most: Int = maximumText
    ) throws(ConfigurationError) -> String? {
        guard
            let member = value.members?.first(where: { ByteExactString($0.name.string) == ByteExactString(name) })?
                .value
        else {
            return nil
        }
        guard let text = member.string, (1...most).contains(text.utf8.count), !ExternalName.hasControls(text) else {
            throw problem("\(place)/\(name)", "must be a text of 1 to \(most) bytes without control characters")
        }
        return text
    }

    private func requireNames(
        of value: JSONValue,
        _ names: [String],
        at place: String
    ) throws(ConfigurationError) {
        for member in value.members.map(Array.init) ?? []
        where !names.contains(where: { ByteExactString($0) == ByteExactString(member.name.string) }) {
            let place = JSONPointer(place).appending(member: member.name.string).text
            let nearest = NearestName.of(member.name.string, among: names)
            throw problem(place, "is unknown" + (nearest.map { "; did you mean \($0)?" } ?? ""))
        }
    }

    // MARK: - Files

    private func secret(in file: String, at place: String) throws(ConfigurationError) -> [UInt8] {
        let text = try contents(of: file, at: place, isSecret: true)
        let secret = Array(String(text.reversed().drop(while: \.isNewline).reversed()).utf8)
        guard secret.count >= 16 else {
            throw problem(place, "names a file with \(secret.count) bytes; at least 16 are required, 32 recommended")
        }
        return secret
    }

    private func contents(
        of file: String,
        at place: String,
        isSecret: Bool = false
    ) throws(ConfigurationError) -> String {
        guard let data = FileManager.default.contents(atPath: resolved(file)) else {
            throw problem(place, "names a file that cannot be read")
        }
        if let defect = isSecret ? FileForm.defect(ofSecret: data) : FileForm.defect(data) {
            throw problem(place, "names a file that \(defect)")
        }
        guard let text = String(bytes: isSecret ? data : FileForm.withoutMark(data), encoding: .utf8) else {
            throw problem(place, "names a file that is not UTF-8 text")
        }
        return text
    }

    /// Resolves a path relative to the folder of this file.
    private func resolved(_ file: String) -> String {
        if file.hasPrefix("/") { return file }
        return URL(filePath: path).deletingLastPathComponent().appending(path: file).path
    }

    private func problem(_ pointer: String, _ text: String) -> ConfigurationError {
        ConfigurationError(
            "\(Setting.jwtIssuersFile.variable) names \(path), in which \(TerminalText.of(pointer)) \(text)."
        )
    }
}

/// A file that must contain a JSON object.
enum JSONFile {
    /// - Parameters:
    ///   - name: the beginning of an error, such as `The configuration file /etc/sluice.json`.
    ///   - verb: the word between the name and the defect.
    /// - Throws: the error, with line and column if the file is not JSON.
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

/// Checks the encoding of files that operators write, because some editors and shells save UTF-16 or a byte order mark.
enum FileForm {
    private static let utf8Mark: [UInt8] = [0xef, 0xbb, 0xbf]

    /// The content without the byte order mark that some editors put before UTF-8.
    static func withoutMark(_ data: Data) -> Data {
        data.starts(with: utf8Mark) ? data.dropFirst(utf8Mark.count) : data
    }

    /// Returns the defect of a file's encoding; nil for a file that may be UTF-8. The text continues a sentence that
    /// begins with "names FILE, which".
    static func defect(_ data: Data) -> String? {
        if data.starts(with: [0xff, 0xfe]) || data.starts(with: [0xfe, 0xff]) {
            return "is UTF-16 with a byte order mark; save it as UTF-8"
        }
        return nil
    }

    /// Returns the reason why a file's encoding is not suitable for a secret; nil if the encoding is suitable. In a
    /// secret, every byte matters.
    static func defect(ofSecret data: Data) -> String? {
        if data.starts(with: utf8Mark) {
            return "begins with a byte order mark (EF BB BF), which would be a part of the secret; "
                + "save it as UTF-8 without one"
        }
        return defect(data)
    }
}

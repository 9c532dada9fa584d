import CommandSupport
import FoundationEssentials
import JSONText
import SyncHTTP
import SyncModel
import Tokens

/// The output of `sluice token explain`: a line for each check, up to the check that refuses the token.
struct TokenExplanation {
    private static let shownNames = 40

    private let examination: TokenExamination
    private let configuration: TokenConfiguration
    /// The present time, in seconds since 1970.
    private let now: Int64
    /// The settings of the token's issuer; nil if no issuer of the settings issued the token.
    private let settings: IssuerSettings?

    init(_ examination: TokenExamination, _ configuration: TokenConfiguration, now: Int64) {
        self.examination = examination
        self.configuration = configuration
        self.now = now
        settings = examination.issuer.map { IssuerSettings($0, configuration) }
    }

    /// The verifier's findings about the token.
    var diagnoses: [Diagnosis] {
        guard case .failure(let error) = examination.verdict else { return [header, issuer, key, validity] }
        let refusal = refusal(error)
        return [header, issuer, key].prefix { $0.subject != refusal.subject } + [refusal]
    }

    /// Warnings about the provider, if the user's claim is unsuitable.
    var cautions: [Diagnosis] { settings.map { ProviderCautions.of($0, payload: examination.payload) } ?? [] }

    /// The last line: whether requests with the token are served.
    func verdict(after diagnoses: [Diagnosis]) -> Diagnosis {
        guard let refused = diagnoses.first(where: { $0.status == .failed }) else {
            return .ok("verdict", "requests with this token are served")
        }
        return .failed("verdict", "requests with this token are rejected", "See \(refused.subject) above.")
    }

    // MARK: - Findings before the verdict

    private var header: Diagnosis {
        let id = examination.keyID.map { ", key \(TerminalText.of($0))" } ?? ", no key id"
        return .ok("token", TerminalText.of(examination.algorithm ?? "-") + id)
    }

    private var issuer: Diagnosis {
        let count = configuration.issuers.count
        return .ok("issuer", (settings?.name ?? "-") + (count == 1 ? "" : ", one of \(count)"))
    }

    private var key: Diagnosis {
        guard let key = examination.key else { return .ok("key", "-") }
        let id = key.id.map { TerminalText.of($0) } ?? "a key without an id"
        let origin = key.isPublished ? "published by the issuer" : "configured"
        return .ok("key", "\(id), \(key.algorithm), \(origin); the signature is valid")
    }

    private var validity: Diagnosis {
        guard case .success(let claims) = examination.verdict else { return .ok("claims", "-") }
        return .ok("claims", "valid until \(Self.moment(claims.expiresAt)), for \(claims.expiresAt - now) s more")
    }

    // MARK: - Refusals

    private func refusal(_ error: TokenError) -> Diagnosis {
        let explanation = error.explanation
        switch error {
        case .missing: return .failed("token", "no token", "Pass it as the argument, or on standard input with -.")
        case .malformed, .malformedHeader, .repeatedMember:
            return .failed(
                "token",
                explanation,
                "Copy the complete token. Opaque (non-JWT) tokens are not supported."
            )
        case .tooLong:
            let advice = "Configure the provider to omit claims; groups, roles and pictures make tokens long."
            return .failed("token", explanation, advice)
        case .wrongIssuer: return wrongIssuer
        case .missingClaim("iss"): return missingIssuer
        case .badSignature, .unknownKey, .algorithmNotAllowed, .keysUnavailable: return badKey(error)
        case .expired:
            return .failed("claims", "expired: exp is \(shown("exp"))", "Get a new token, or check the clock.")
        case .notYetValid(let claim):
            let advice = "Check the clocks; \(Setting.jwtLeewaySeconds.variable) tolerates small differences."
            return .failed("claims", "not valid yet: \(claim) is \(shown(claim))", advice)
        case .wrongAudience: return wrongAudience
        case .missingClaim(let place), .malformedClaim(let place, _): return badClaim(place, explanation)
        case .organizationNotCovered:
            let place = settings?.issuer.places.organization.place.map { shown($0) } ?? "another organization"
            return .failed(
                "organization",
                "the issuer may not issue tokens for \(place)",
                "If it should, add it to the issuer's `organizations` in \(Setting.jwtIssuersFile.variable)."
            )
        }
    }

    private var wrongIssuer: Diagnosis {
        let known = configuration.issuers.map { IssuerSettings($0, configuration).name }
        let finding = "iss is \(shown("iss")); the settings have \(known.prefix(10).joined(separator: ", "))"
        let advice =
            "If you trust this issuer, set \(Setting.jwtIssuer.variable) or an issuer of "
            + "\(Setting.jwtIssuersFile.variable) to exactly this text, including a slash at its end."
        return .failed("issuer", finding, advice)
    }

    private var missingIssuer: Diagnosis {
        let advice =
            "Configure the issuer to add it. Tokens without it are only accepted if the settings have a single issuer "
            + "without a name."
        return .failed("issuer", "iss is missing", advice)
    }

    private func badKey(_ error: TokenError) -> Diagnosis {
        guard let settings else { return .failed("key", error.explanation, "Ask the issuer.") }
        if error != .badSignature, let unsupported = unsupportedAlgorithm(settings) { return unsupported }
        let id = examination.keyID.map { TerminalText.of($0) } ?? "-"
        let name = examination.keyID == nil ? "the token has no key id, and no key fits" : "no key \(id)"
        switch error {
        case .keysUnavailable:
            let keySet = settings.issuer.jwksURL.map { KeySetURL.shown($0) } ?? "-"
            let reason = examination.fetchProblem.map { ": \($0)" } ?? ""
            return .failed("key", "the keys of \(keySet) cannot be fetched\(reason)", "Check \(settings.jwksURL).")
        case .unknownKey: return .failed("key", "\(name); \(keys)", advice(forUnknownKey: id, settings))
        case .algorithmNotAllowed:
            let algorithm = examination.algorithm ?? "-"
            let finding = "the issuer has no key for \(TerminalText.of(algorithm)); \(keys)"
            return .failed("key", finding, advice(forAlgorithm: algorithm, settings))
        default:
            let other =
                "The token was changed or truncated, or signed by another issuer or environment of the provider."
            let isSecrets = settings.issuer.secret != nil && examination.algorithm == "HS256"
            let advice = isSecrets ? "Check that \(settings.secret) is the signing secret. \(other)" : other
            let key = isSecrets ? "\(settings.secret)" : examination.keyID == nil ? "any key" : "key \(id)"
            return .failed("key", "the signature does not match \(key)", advice)
        }
    }

    /// The available keys, for a finding.
    private var keys: String {
        let known = examination.knownKeys.prefix(10).map { TerminalText.of($0) }.joined(separator: ", ")
        if !known.isEmpty { return "the available keys are \(known)" }
        let algorithms = examination.knownAlgorithms
        if algorithms.isEmpty { return "no key is available" }
        return "the available keys have no ids and are for \(algorithms.joined(separator: ", "))"
    }

    /// Returns the defect of a token with an algorithm that no key of the issuer can have. The key id does not matter.
    /// Returns nil for other tokens.
    private func unsupportedAlgorithm(_ settings: IssuerSettings) -> Diagnosis? {
        let (algorithm, issuer) = (examination.algorithm ?? "-", settings.issuer)
        let advice = advice(forAlgorithm: algorithm, settings)
        switch algorithm {
        case "HS256":
            guard issuer.secret == nil else { return nil }
            return .failed("key", "HS256 requires a shared secret, which the issuer's settings lack", advice)
        case "RS256", "ES256", "EdDSA":
            guard issuer.jwksURL == nil else { return nil }
            if examination.knownAlgorithms.contains(algorithm) { return nil }
            let finding =
                "\(algorithm) requires a public key, which the issuer's settings lack; \(keys)"
            return .failed("key", finding, advice)
        default: return .failed("key", "the algorithm \(TerminalText.of(algorithm)) is not supported", advice)
        }
    }

    private func advice(forUnknownKey id: String, _ settings: IssuerSettings) -> String {
        let issuer = settings.issuer
        if let url = issuer.jwksURL {
            return
                "Check that the token is from this issuer and that \(settings.jwksURL) is its key set. "
                + "\(KeySetURL.shown(url)) does not contain the key."
        }
        if !issuer.keys.isEmpty { return "If the token is from this issuer, add key \(id) to \(settings.keysFile)." }
        return "The issuer only has a secret. If the token is from it, set \(settings.jwksURL) or \(settings.keysFile)."
    }

    private func advice(forAlgorithm algorithm: String, _ settings: IssuerSettings) -> String {
        switch algorithm {
        case "HS256": "HS256 requires the signing secret: set \(settings.secret), if this gateway may have it."
        case "RS256", "ES256", "EdDSA":
            "\(algorithm) requires a public key of its kind: check \(settings.jwksURL) or \(settings.keysFile)."
        default: "Configure the issuer to sign with RS256, ES256 or EdDSA, or with HS256 and a secret."
        }
    }

    private var wrongAudience: Diagnosis {
        guard let settings else { return .failed("audience", "the token is for another audience", "Ask the issuer.") }
        let place = settings.issuer.audienceClaim
        let wanted = settings.issuer.audience.map { TerminalText.of($0) } ?? "-"
        return .failed(
            "audience",
            "\(place) is \(shown(place)), not \(wanted)",
            "Set \(settings.audience) to the provider's value for this API, or request a token for this audience in "
                + "the app."
        )
    }

    /// Returns the diagnosis of a claim that is missing or invalid.
    private func badClaim(_ place: String, _ explanation: String) -> Diagnosis {
        let members = examination.payload?.members.map(Array.init) ?? []
        let names = members.prefix(Self.shownNames).map { TerminalText.of($0.name.string) }.joined(separator: ", ")
        let more = members.count > Self.shownNames ? " and \(members.count - Self.shownNames) more" : ""
        let finding = explanation + (names.isEmpty ? " The token has no claims." : " The token has \(names)\(more).")
        guard let settings else { return .failed("claims", finding, "Configure the issuer to add it.") }
        let issuer = settings.issuer
        switch place {
        case issuer.audienceClaim.description where issuer.audience != nil && place != "exp":
            let wanted = issuer.audience.map { TerminalText.of($0) } ?? "-"
            return .failed("audience", finding, "Set \(settings.audienceClaim) to the claim that has \(wanted).")
        case issuer.places.user.description:
            return .failed("user", finding, advice(forUserOf: settings))
        case issuer.places.organization.place?.description:
            return .failed("organization", finding, advice(forOrganizationOf: settings))
        case issuer.channels?.place.description:
            return .failed("channels", finding, "Set \(settings.channelClaim) to a claim with names of channels.")
        default: return .failed("claims", finding, "Configure the issuer to add it.")
        }
    }

    private func advice(forUserOf settings: IssuerSettings) -> String {
        let places = settings.issuer.places
        let advice = "Set \(settings.userClaim) to the claim that identifies the user."
        guard places.userForm == .uuid, Self.isName(examination.payload?.value(at: places.user.query)) else {
            return advice
        }
        return
            "Set \(settings.userIDs) to either, to accept users without UUIDs. If another claim is the user: \(advice)"
    }

    private static func isName(_ value: JSONValue?) -> Bool { value?.string.map { ExternalName.isValid($0) } ?? false }

    private func advice(forOrganizationOf settings: IssuerSettings) -> String {
        let places = settings.issuer.places
        if case .claim(let place) = places.organization, places.organizationForm == .uuid,
            Self.isName(examination.payload?.value(at: place.query))
        {
            return
                "If it is the issuer's name for an organization, set \(settings.organizationIDs) to either, and add "
                + "the name with sluice organizations external-ids add."
        }
        let found = Self.organizationPlaces.first { place in
            examination.payload?.value(at: place.query)?.string?.isEmpty == false
        }
        if let found { return "If it is \(found), set \(settings.organizationClaim) to \(found)." }
        let keys = ClaimPlace(named: "organization")
        if let value = examination.payload?.value(at: keys.query), value.members != nil || value.elements != nil {
            return "If the names are the keys of \(keys), set \(settings.organizationKeys) to \(keys)."
        }
        let fixed = "if all tokens are for one, set \(Setting.jwtOrganization.variable) or `organization` of the issuer"
        return "Set \(settings.organizationClaim) to the claim that identifies the organization, or, \(fixed)."
    }

    /// The claims that providers use, as listed in docs/identity.md.
    private static let organizationPlaces = [
        "org", "org_id", "$.o.id", "$.firebase.tenant", "tid", "$.app_metadata.organization", "custom:organization",
        "organization",
    ].compactMap { try? ClaimPlace(parsing: $0) }

    // MARK: - User and organization

    /// The gateway's findings about a verified token's user and organization.
    ///
    /// - Parameter chosen: the value of `X-Sluice-Organization` in a request.
    func identityDiagnoses(
        of claims: TokenClaims,
        in organization: Organization?,
        chosen: String?,
        _ verdict: AuthorizationDryRun.Verdict
    ) -> [Diagnosis] {
        let whose = organization.map {
            Diagnosis.ok("organization", "\($0.id.lowercased), \(TerminalText.of($0.name))")
        }
        switch verdict {
        case .user(let user):
            return [whose, .ok("user", "\(description(of: claims.user)) is user \(user.lowercased)")].compactMap(
                \.self
            )
        case .newcomer:
            let finding = "\(description(of: claims.user)) is new and will get an id with the first request"
            return [whose, .ok("user", finding)].compactMap(\.self)
        case .refused(let problem):
            guard let organization, let whose else { return [refusedOrganization(claims, chosen, problem)] }
            return [whose, refusedUser(claims, organization, problem)]
        }
    }

    private func description(of user: TokenClaims.User) -> String {
        switch user {
        case .id: "a UUID"
        case .subject(let text): "subject \(TerminalText.of(text.string))"
        }
    }

    private func refusedOrganization(_ claims: TokenClaims, _ chosen: String?, _ problem: Problem) -> Diagnosis {
        let advice: String
        switch (problem.code, claims.organization) {
        case (.organizationUnknown, .id(let id)):
            advice =
                chosen.map { UUID(parsing: $0) == id } ?? true
                ? "If it does not exist, run: sluice organizations create NAME --id \(id.lowercased)"
                : "--organization (X-Sluice-Organization) must be the token's, \(id.lowercased), or be omitted."
        case (.organizationUnknown, .names(let names)): advice = self.advice(forNames: names, claims, chosen)
        case (.organizationSuspended, .id(let id)): advice = "sluice organizations activate \(id.lowercased)"
        case (.organizationSuspended, .names):
            advice = "sluice organizations list shows which are suspended; sluice organizations activate UUID"
        default: advice = "Try again. If it fails again, run sluice doctor."
        }
        return .failed("organization", problem.detail, advice)
    }

    private func advice(forNames names: [ByteExactString], _ claims: TokenClaims, _ chosen: String?) -> String {
        let shown = names.prefix(5).map { TerminalText.of($0) }.joined(separator: ", ")
        let list = names.count > 5 ? "\(shown) and \(names.count - 5) more" : shown
        if chosen == nil, names.count > 1 {
            return "The token contains \(list). Choose one with --organization, in requests with X-Sluice-Organization."
        }
        if let chosen, ByteExactString(percentEncoded: chosen).map({ !names.contains($0) }) ?? true {
            return "--organization (X-Sluice-Organization) must be one that the token contains: \(list)."
        }
        return
            "The token contains \(list). Add the name: sluice organizations external-ids add UUID NAME --issuer "
            + "\(Self.word(claims.namespace)). An issuer may only issue tokens for its `organizations`."
    }

    /// An issuer's name as an argument of a command.
    private static func word(_ issuer: ByteExactString) -> String { issuer == "" ? "''" : TerminalText.of(issuer) }

    private func refusedUser(_ claims: TokenClaims, _ organization: Organization, _ problem: Problem) -> Diagnosis {
        let finding = "\(description(of: claims.user)): \(problem.detail)"
        let advice: String
        switch (problem.code, claims.user) {
        case (.userErased, _):
            advice = "Erasure is permanent. The same person can use another account of the provider."
        case (.userUnknown, .subject):
            advice =
                "An operator must add the user: sluice users add SUBJECT --organization \(organization.id.lowercased) "
                + "--issuer \(Self.word(claims.namespace))"
        case (.userUnknown, .id(let user)) where organization.settings.provisioning == .explicit:
            advice =
                "An operator must add the user: PUT /admin/organizations/\(organization.id.lowercased)/users/"
                + "\(user.lowercased). An id that was assigned to a subject is not accepted in a token."
        case (.userUnknown, .id):
            advice =
                "The gateway assigned this UUID to a subject of an issuer, so it is not accepted in a token. "
                + "Configure the issuer to use another UUID."
        default: advice = "Try again in a few seconds."
        }
        return .failed("user", finding, advice)
    }

    // MARK: - The token's content

    private func shown(_ name: String) -> String { shown(ClaimPlace(named: name)) }

    /// A claim's value, made safe for display.
    private func shown(_ place: ClaimPlace) -> String {
        guard let value = examination.payload?.value(at: place.query) else { return "missing" }
        if value.kind == .number, let seconds = value.int64 { return Self.moment(seconds) }
        return TerminalText.of(value.string ?? String(decoding: value.raw, as: UTF8.self))
    }

    private static func moment(_ seconds: Int64) -> String {
        guard (0...253_402_300_799).contains(seconds) else { return "\(seconds)" }
        return Timestamp(microseconds: seconds * 1_000_000).rfc3339
    }
}

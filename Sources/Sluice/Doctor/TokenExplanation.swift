import Foundation
import JSONText
import SyncHTTP
import SyncModel
import Tokens

/// The output of `sluice token explain`: a line for each check, up to the one that refuses the token.
struct TokenExplanation {
    private static let shownNames = 40

    private let examination: TokenExamination
    private let configuration: TokenConfiguration
    /// Seconds since 1970.
    private let now: Int64
    /// Nil: the token is of no issuer of the settings.
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

    /// The last line.
    func verdict(after diagnoses: [Diagnosis]) -> Diagnosis {
        guard let refused = diagnoses.first(where: { $0.status == .failed }) else {
            return .ok("verdict", "a request with this token is served")
        }
        return .failed("verdict", "a request with this token is refused", "See \(refused.subject) above.")
    }

    // MARK: - Findings before the verdict

    private var header: Diagnosis {
        let id = examination.keyID.map { ", key \(ShownText.of($0))" } ?? ", no key id"
        return .ok("token", ShownText.of(examination.algorithm ?? "-") + id)
    }

    private var issuer: Diagnosis {
        let count = configuration.issuers.count
        return .ok("issuer", (settings?.name ?? "-") + (count == 1 ? "" : ", one of \(count)"))
    }

    private var key: Diagnosis {
        guard let key = examination.key else { return .ok("key", "-") }
        let id = key.id.map { ShownText.of($0) } ?? "one without an id"
        let origin = key.isPublished ? "published by the issuer" : "configured"
        return .ok("key", "\(id), \(key.algorithm), \(origin); the signature is good")
    }

    private var validity: Diagnosis {
        guard case .success(let claims) = examination.verdict else { return .ok("claims", "-") }
        return .ok("claims", "valid until \(Self.moment(claims.expiresAt)), for \(claims.expiresAt - now) s more")
    }

    // MARK: - Refusals

    private func refusal(_ error: TokenError) -> Diagnosis {
        let explanation = error.explanation
        switch error {
        case .missing: return .failed("token", "there is none", "Give it as the argument, or - and on standard input.")
        case .malformed, .malformedHeader, .repeatedMember:
            return .failed(
                "token",
                explanation,
                "Copy it whole; a token of the provider's own format is none that can be read."
            )
        case .tooLong:
            let advice = "Have the provider write less into it: groups, roles and pictures make tokens long."
            return .failed("token", explanation, advice)
        case .wrongIssuer: return wrongIssuer
        case .missingClaim("iss"): return missingIssuer
        case .badSignature, .unknownKey, .algorithmNotAllowed, .keysUnavailable: return badKey(error)
        case .expired:
            return .failed("claims", "it expired: exp is \(said("exp"))", "Get a new one, or see to the clock.")
        case .notYetValid:
            let advice = "See to the clocks; \(Setting.jwtLeewaySeconds.variable) allows for small differences."
            return .failed("claims", "it is not valid yet: nbf is \(said("nbf"))", advice)
        case .wrongAudience: return wrongAudience
        case .missingClaim(let place), .malformedClaim(let place, _): return badClaim(place, explanation)
        case .organizationNotCovered:
            let place = settings?.issuer.places.organization.place.map { said($0) } ?? "another one"
            return .failed(
                "organization",
                "the issuer does not speak for \(place)",
                "Add it to the issuer's `organizations` in \(Setting.jwtIssuersFile.variable), if it should."
            )
        }
    }

    private var wrongIssuer: Diagnosis {
        let known = configuration.issuers.map { IssuerSettings($0, configuration).name }
        let finding = "iss is \(said("iss")); the settings have \(known.prefix(10).joined(separator: ", "))"
        let advice =
            "Set \(Setting.jwtIssuer.variable), or an issuer of \(Setting.jwtIssuersFile.variable), to exactly that text, "
            + "with its slash at the end if it has one: if you trust that issuer."
        return .failed("issuer", finding, advice)
    }

    private var missingIssuer: Diagnosis {
        let advice =
            "The issuer has to write it: without it nothing says whose token it is. Only where one issuer alone is "
            + "configured, and without a name, such tokens are taken."
        return .failed("issuer", "iss is missing", advice)
    }

    private func badKey(_ error: TokenError) -> Diagnosis {
        guard let settings else { return .failed("key", error.explanation, "Ask the issuer.") }
        if error != .badSignature, let unsupported = unsupportedAlgorithm(settings) { return unsupported }
        let id = examination.keyID.map { ShownText.of($0) } ?? "-"
        let name = examination.keyID == nil ? "no key for a token without a key id" : "no key \(id)"
        switch error {
        case .keysUnavailable:
            let keySet = settings.issuer.jwksURL.map { KeySetURL.shown($0) } ?? "-"
            let reason = examination.fetchProblem.map { ": \($0)" } ?? ""
            return .failed("key", "the keys of \(keySet) cannot be fetched\(reason)", "See to \(settings.jwksURL).")
        case .unknownKey: return .failed("key", "\(name); \(keys)", advice(forUnknownKey: id, settings))
        case .algorithmNotAllowed:
            let algorithm = examination.algorithm ?? "-"
            let finding = "\(ShownText.of(algorithm)) is not the algorithm of a key of the issuer; \(keys)"
            return .failed("key", finding, advice(forAlgorithm: algorithm, settings))
        default:
            let other = "The token was changed, cut off, or signed by another: by another environment of the provider?"
            let isSecrets = settings.issuer.secret != nil && examination.algorithm == "HS256"
            let advice = isSecrets ? "Is \(settings.secret) the secret that signs? \(other)" : other
            return .failed("key", "the signature is not that of key \(id)", advice)
        }
    }

    /// The available keys, for a finding.
    private var keys: String {
        let known = examination.knownKeys.prefix(10).map { ShownText.of($0) }.joined(separator: ", ")
        if !known.isEmpty { return "the keys at hand are \(known)" }
        let algorithms = examination.knownAlgorithms
        if algorithms.isEmpty { return "there is no key at hand" }
        return "the keys at hand have no ids, and are for \(algorithms.joined(separator: ", "))"
    }

    /// Returns the defect of a token whose algorithm no key from the issuer's settings can verify, with any key id; nil
    /// for other tokens.
    private func unsupportedAlgorithm(_ settings: IssuerSettings) -> Diagnosis? {
        let (algorithm, issuer) = (examination.algorithm ?? "-", settings.issuer)
        let advice = advice(forAlgorithm: algorithm, settings)
        switch algorithm {
        case "HS256":
            guard issuer.secret == nil else { return nil }
            return .failed("key", "HS256 is verified by a shared secret, and the issuer's settings have none", advice)
        case "RS256", "ES256", "EdDSA":
            guard issuer.jwksURL == nil else { return nil }
            if examination.knownAlgorithms.contains(algorithm) { return nil }
            let finding =
                "\(algorithm) is verified by a public key, and the issuer's settings have none for it; \(keys)"
            return .failed("key", finding, advice)
        default: return .failed("key", "\(ShownText.of(algorithm)) is not an algorithm that is accepted", advice)
        }
    }

    private func advice(forUnknownKey id: String, _ settings: IssuerSettings) -> String {
        let issuer = settings.issuer
        if let url = issuer.jwksURL {
            return
                "Is it a token of this issuer, and \(settings.jwksURL) its key set? \(KeySetURL.shown(url)) has no such "
                + "key now."
        }
        if !issuer.keys.isEmpty { return "Is it a token of this issuer? Then add key \(id) to \(settings.keysFile)." }
        return "Is it a token of this issuer? It has a secret alone: set \(settings.jwksURL) or \(settings.keysFile)."
    }

    private func advice(forAlgorithm algorithm: String, _ settings: IssuerSettings) -> String {
        switch algorithm {
        case "HS256": "HS256 needs the secret that signs: set \(settings.secret), if this gateway may have it."
        case "RS256", "ES256", "EdDSA":
            "\(algorithm) needs a public key of its kind: see to \(settings.jwksURL) or \(settings.keysFile)."
        default: "Have the issuer sign by RS256, ES256 or EdDSA (or HS256, with a secret): no other is taken."
        }
    }

    private var wrongAudience: Diagnosis {
        guard let settings else { return .failed("audience", "it is meant for another audience", "Ask the issuer.") }
        let place = settings.issuer.audienceClaim
        let wanted = settings.issuer.audience.map { ShownText.of($0) } ?? "-"
        return .failed(
            "audience",
            "\(place) is \(said(place)), not \(wanted)",
            "Set \(settings.audience) to what the provider writes there for this API, or have the app ask for a token of "
                + "this one."
        )
    }

    /// A claim that is missing or invalid.
    private func badClaim(_ place: String, _ explanation: String) -> Diagnosis {
        let members = examination.payload?.members.map(Array.init) ?? []
        let names = members.prefix(Self.shownNames).map { ShownText.of($0.name.string) }.joined(separator: ", ")
        let more = members.count > Self.shownNames ? " and \(members.count - Self.shownNames) more" : ""
        let finding = explanation + (names.isEmpty ? " The token has no claims." : " The token has \(names)\(more).")
        guard let settings else { return .failed("claims", finding, "The issuer has to write it.") }
        let issuer = settings.issuer
        switch place {
        case issuer.audienceClaim.description where issuer.audience != nil && place != "exp":
            let wanted = issuer.audience.map { ShownText.of($0) } ?? "-"
            return .failed("audience", finding, "Set \(settings.audienceClaim) to the claim that has \(wanted).")
        case issuer.places.user.description:
            return .failed("user", finding, advice(forUserOf: settings))
        case issuer.places.organization.place?.description:
            return .failed("organization", finding, advice(forOrganizationOf: settings))
        default: return .failed("claims", finding, "The issuer has to write it.")
        }
    }

    private func advice(forUserOf settings: IssuerSettings) -> String {
        let places = settings.issuer.places
        let advice = "Set \(settings.userClaim) to the claim that says who the user is."
        guard places.userForm == .uuid, Self.isName(examination.payload?.value(at: places.user.query)) else {
            return advice
        }
        return
            "Set \(settings.userIDs) to either, which lets in users who are no UUIDs. Or is it another claim? \(advice)"
    }

    private static func isName(_ value: JSONValue?) -> Bool { value?.string.map { ExternalName.isValid($0) } ?? false }

    private func advice(forOrganizationOf settings: IssuerSettings) -> String {
        let places = settings.issuer.places
        if case .claim(let place) = places.organization, places.organizationForm == .uuid,
            Self.isName(examination.payload?.value(at: place.query))
        {
            return
                "Set \(settings.organizationIDs) to either, where it is a name that the issuer has for an organization; "
                + "sluice organizations external-ids add gives it to one."
        }
        let found = Self.organizationPlaces.first { place in
            examination.payload?.value(at: place.query)?.string?.isEmpty == false
        }
        if let found { return "Is it \(found)? Then set \(settings.organizationClaim) to that." }
        let keys = ClaimPlace(named: "organization")
        if let value = examination.payload?.value(at: keys.query), value.members != nil || value.elements != nil {
            return "Are its names the keys of \(keys)? Then set \(settings.organizationKeys) to that."
        }
        let fixed = "\(Setting.jwtOrganization.variable), or `organization` of the issuer, where all tokens are for one"
        return "Set \(settings.organizationClaim) to the claim that says which organization it is, or \(fixed)."
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
    func standing(
        of claims: TokenClaims,
        in organization: Organization?,
        chosen: String?,
        _ verdict: CallerInquiry.Verdict
    ) -> [Diagnosis] {
        let whose = organization.map { Diagnosis.ok("organization", "\($0.id.lowercased), \(ShownText.of($0.name))") }
        switch verdict {
        case .user(let user):
            return [whose, .ok("user", "\(words(for: claims.user)) is user \(user.lowercased)")].compactMap(\.self)
        case .newcomer:
            let finding = "\(words(for: claims.user)) comes for the first time, and is given an id then"
            return [whose, .ok("user", finding)].compactMap(\.self)
        case .refused(let problem):
            guard let organization, let whose else { return [refusedOrganization(claims, chosen, problem)] }
            return [whose, refusedUser(claims, organization, problem)]
        }
    }

    private func words(for user: TokenClaims.User) -> String {
        switch user {
        case .id: "a UUID"
        case .subject(let text): "subject \(ShownText.of(text.string))"
        }
    }

    private func refusedOrganization(_ claims: TokenClaims, _ chosen: String?, _ problem: Problem) -> Diagnosis {
        let advice: String
        switch (problem.code, claims.organization) {
        case (.organizationUnknown, .id(let id)):
            advice =
                chosen.map { UUID(parsing: $0) == id } ?? true
                ? "Is it made? sluice organizations create NAME --id \(id.lowercased)"
                : "--organization, as X-Sluice-Organization, must be the token's, \(id.lowercased), or be left out."
        case (.organizationUnknown, .names(let names)): advice = self.advice(forNames: names, claims, chosen)
        case (.organizationSuspended, .id(let id)): advice = "sluice organizations activate \(id.lowercased)"
        case (.organizationSuspended, .names):
            advice = "sluice organizations list says which are suspended; sluice organizations activate UUID"
        default: advice = "Try again; sluice doctor says what is wrong if it stays so."
        }
        return .failed("organization", problem.detail, advice)
    }

    private func advice(forNames names: [ExactText], _ claims: TokenClaims, _ chosen: String?) -> String {
        let shown = names.prefix(5).map { ShownText.of($0) }.joined(separator: ", ")
        let list = names.count > 5 ? "\(shown) and \(names.count - 5) more" : shown
        if chosen == nil, names.count > 1 {
            return "The token says \(list): --organization chooses, as X-Sluice-Organization does in a request."
        }
        if let chosen, ExactText(percentEncoded: chosen).map({ !names.contains($0) }) ?? true {
            return "--organization, as X-Sluice-Organization, must be one that the token says: \(list)."
        }
        return
            "The token says \(list): a name is given by sluice organizations external-ids add UUID NAME --issuer "
            + "\(Self.word(claims.namespace)). An issuer speaks for its `organizations` alone."
    }

    /// An issuer's name as an argument of a command.
    private static func word(_ issuer: ExactText) -> String { issuer == "" ? "''" : ShownText.of(issuer) }

    private func refusedUser(_ claims: TokenClaims, _ organization: Organization, _ problem: Problem) -> Diagnosis {
        let finding = "\(words(for: claims.user)): \(problem.detail)"
        let advice: String
        switch (problem.code, claims.user) {
        case (.userErased, _):
            advice = "It is for good. The same person may come under another account of the provider."
        case (.userUnknown, .subject):
            advice =
                "An operator lets users in: sluice users add SUBJECT --organization \(organization.id.lowercased) "
                + "--issuer \(Self.word(claims.namespace))"
        case (.userUnknown, .id(let user)) where organization.settings.provisioning == .explicit:
            advice =
                "An operator lets users in: PUT /admin/organizations/\(organization.id.lowercased)/users/"
                + "\(user.lowercased). An id that was made for a subject lets in nobody who says it."
        case (.userUnknown, .id):
            advice =
                "The gateway gave this UUID to somebody whom an issuer knows by a text: nobody else is let in by saying "
                + "it. Let the issuer say another."
        default: advice = "Try again in a few seconds."
        }
        return .failed("user", finding, advice)
    }

    // MARK: - The token's content

    private func said(_ name: String) -> String { said(ClaimPlace(named: name)) }

    /// A claim's value, made safe for display.
    private func said(_ place: ClaimPlace) -> String {
        guard let value = examination.payload?.value(at: place.query) else { return "missing" }
        if value.kind == .number, let seconds = value.int64 { return Self.moment(seconds) }
        return ShownText.of(value.string ?? String(decoding: value.raw, as: UTF8.self))
    }

    private static func moment(_ seconds: Int64) -> String {
        guard (0...253_402_300_799).contains(seconds) else { return "\(seconds)" }
        return Timestamp(microseconds: seconds * 1_000_000).rfc3339
    }
}

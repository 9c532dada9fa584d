import Foundation
import JSONText
import SyncHTTP
import SyncModel
import Tokens

/// What `sluice token explain` says of a token: a line for each thing that is decided, up to the one that refuses it.
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

    /// What the verifier thinks of the token.
    var diagnoses: [Diagnosis] {
        guard case .failure(let error) = examination.verdict else { return [header, issuer, key, validity] }
        let refusal = refusal(error)
        return [header, issuer, key].prefix { $0.subject != refusal.subject } + [refusal]
    }

    /// What is known of the provider, where the user's claim is no good.
    var cautions: [Diagnosis] { settings.map { ProviderCautions.of($0, payload: examination.payload) } ?? [] }

    /// The last line.
    func verdict(after diagnoses: [Diagnosis]) -> Diagnosis {
        guard let refused = diagnoses.first(where: { $0.status == .failed }) else {
            return .ok("verdict", "a request with this token is served")
        }
        return .failed("verdict", "a request with this token is refused", "See \(refused.subject) above.")
    }

    // MARK: - What is found before the verdict

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
        case .wrongIssuer, .missingClaim("iss"): return wrongIssuer
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

    private func badKey(_ error: TokenError) -> Diagnosis {
        let keySet = settings?.issuer.jwksURL.map { KeySetURL.shown($0) }
        let known = examination.knownKeys.prefix(10).map { ShownText.of($0) }.joined(separator: ", ")
        let keys = known.isEmpty ? "the keys at hand have no ids" : "the keys at hand are \(known)"
        let id = examination.keyID.map { ShownText.of($0) } ?? "-"
        switch error {
        case .keysUnavailable:
            let reason = examination.fetchProblem.map { ": \($0)" } ?? ""
            return .failed(
                "key",
                "the keys of \(keySet ?? "-") cannot be fetched\(reason)",
                "See to \(settings?.jwksURL ?? "-")."
            )
        case .unknownKey:
            let advice =
                "Is it a token of this issuer? Its key set is \(settings?.jwksURL ?? "-"), or a file that names key \(id)."
            return .failed("key", "no key \(id); \(keys)", advice)
        case .algorithmNotAllowed:
            let algorithm = ShownText.of(examination.algorithm ?? "-")
            let finding = "\(algorithm) is not the algorithm of a key of the issuer; \(keys)"
            let advice =
                "RS256, ES256 and EdDSA need public keys, HS256 a secret: set \(Setting.jwtSecret.variable), "
                + "\(Setting.jwtKeysFile.variable) or \(Setting.jwtJWKSURL.variable)."
            return .failed("key", finding, advice)
        default:
            let advice = "The token was changed, cut off, or signed by another: by another environment of the provider?"
            return .failed("key", "the signature is not that of key \(id)", advice)
        }
    }

    private var wrongAudience: Diagnosis {
        guard let settings else { return .failed("audience", "it is meant for another audience", "") }
        let place = settings.issuer.audienceClaim
        let wanted = settings.issuer.audience.map { ShownText.of($0) } ?? "-"
        return .failed(
            "audience",
            "\(place) is \(said(place)), not \(wanted)",
            "Set \(settings.audience) to what the provider writes there for this API."
        )
    }

    /// A claim that is missing, or is not what it must be.
    private func badClaim(_ place: String, _ explanation: String) -> Diagnosis {
        let names =
            examination.payload?.members.map { $0.prefix(Self.shownNames).map { ShownText.of($0.name.string) } } ?? []
        let finding = explanation + " The token has \(names.joined(separator: ", "))."
        guard let settings else { return .failed("claims", finding, "") }
        let issuer = settings.issuer
        switch place {
        case issuer.audienceClaim.description where issuer.audience != nil && place != "exp":
            let advice = "Set \(settings.audienceClaim) to the claim that has \(ShownText.of(issuer.audience ?? "-"))."
            return .failed("audience", finding, advice)
        case issuer.places.user.description:
            var advice = "Set \(settings.userClaim) to the claim that says who the user is."
            if issuer.places.userForm == .uuid {
                advice += " \(settings.userIDs)=either lets in users who are no UUIDs."
            }
            return .failed("user", finding, advice)
        case issuer.places.organization.place?.description:
            return .failed("organization", finding, advice(forOrganizationOf: settings))
        default: return .failed("claims", finding, "The issuer has to write it.")
        }
    }

    private func advice(forOrganizationOf settings: IssuerSettings) -> String {
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

    /// Where providers write it, as docs/identity.md says.
    private static let organizationPlaces = [
        "org", "org_id", "$.o.id", "$.firebase.tenant", "tid", "$.app_metadata.organization", "custom:organization",
        "organization",
    ].compactMap { try? ClaimPlace(parsing: $0) }

    // MARK: - User and organization

    /// What the gateway thinks of a verified token's user and organization.
    func standing(of claims: TokenClaims, in organization: Organization?, _ verdict: CallerInquiry.Verdict)
        -> [Diagnosis]
    {
        let whose = organization.map { Diagnosis.ok("organization", "\($0.id.lowercased), \(ShownText.of($0.name))") }
        switch verdict {
        case .user(let user):
            return [whose, .ok("user", "\(words(for: claims.user)) is user \(user.lowercased)")].compactMap(\.self)
        case .newcomer:
            let finding = "\(words(for: claims.user)) comes for the first time, and is given an id then"
            return [whose, .ok("user", finding)].compactMap(\.self)
        case .refused(let problem):
            guard let organization, let whose else { return [refusedOrganization(claims, problem)] }
            return [whose, refusedUser(claims, organization, problem)]
        }
    }

    private func words(for user: TokenClaims.User) -> String {
        switch user {
        case .id: "a UUID"
        case .subject(let text): "subject \(ShownText.of(text.string))"
        }
    }

    private func refusedOrganization(_ claims: TokenClaims, _ problem: Problem) -> Diagnosis {
        let advice: String
        switch (problem.code, claims.organization) {
        case (.organizationUnknown, .id(let id)):
            advice = "Is it made? sluice organizations create NAME --id \(id.lowercased)"
        case (.organizationUnknown, .names(let names)):
            let issuer = claims.namespace.string.isEmpty ? "''" : ShownText.of(claims.namespace.string)
            let shown = names.prefix(5).map { ShownText.of($0.string) }.joined(separator: ", ")
            advice =
                "The token says \(shown): a name is given by sluice organizations external-ids add UUID NAME --issuer "
                + "\(issuer); of several, --organization chooses. An issuer speaks for its `organizations` alone."
        case (.organizationSuspended, _): advice = "sluice organizations activate"
        default: advice = "Try again."
        }
        return .failed("organization", problem.detail, advice)
    }

    private func refusedUser(_ claims: TokenClaims, _ organization: Organization, _ problem: Problem) -> Diagnosis {
        let finding = "\(words(for: claims.user)): \(problem.detail)"
        guard problem.code == .userUnknown else { return .failed("user", finding, "Try again.") }
        switch claims.user {
        case .subject:
            let command = "sluice users add SUBJECT --organization \(organization.id.lowercased)"
            return .failed("user", finding, "An operator lets users in: \(command)")
        case .id:
            let advice =
                "Where `provisioning` is explicit an operator lets users in: PUT /admin/organizations/{id}/users/{user}. An "
                + "id that was made for a subject lets in nobody who says it."
            return .failed("user", finding, advice)
        }
    }

    // MARK: - What the token says

    private func said(_ name: String) -> String { said(ClaimPlace(named: name)) }

    /// A claim's value, whoever wrote it.
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

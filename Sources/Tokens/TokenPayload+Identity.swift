import FoundationEssentials
import JSONText
import SyncModel

extension TokenPayload {
    private static let nameForm = "a text of 1 to \(ExternalName.maximumBytes) bytes without control characters"
    private static let uuidForm = "a UUID such as 0192f0c1-2345-7abc-8def-0123456789ab"
    private static let keysForm =
        "an object, or a list of texts, with at most \(IdentityPlaces.maximumNames) names, each "

    /// Reads the bearer.
    func user(_ place: ClaimPlace, _ form: IdentityPlaces.UserForm) throws(TokenError) -> TokenClaims.User {
        guard let value = claims.value(at: place.query) else { throw .missingClaim(place.description) }
        if form != .mapped, let id = value.uuid { return .id(id) }
        if form == .uuid { throw .malformedClaim(place.description, mustBe: Self.uuidForm) }
        return .subject(try name(value, place))
    }

    /// Reads the organization for which the bearer acts.
    func organization(
        _ organization: IdentityPlaces.Organization,
        _ form: IdentityPlaces.OrganizationForm
    ) throws(TokenError) -> TokenClaims.Organization {
        switch organization {
        case .fixed(let id): return .id(id)
        case .keys(let place): return .names(try keys(place))
        case .claim(let place):
            guard let value = claims.value(at: place.query) else { throw .missingClaim(place.description) }
            if form != .external, let id = value.uuid { return .id(id) }
            if form == .uuid { throw .malformedClaim(place.description, mustBe: Self.uuidForm) }
            return .names([try name(value, place)])
        }
    }

    /// The names of an object's members, or of a list.
    ///
    /// They are never taken for ids: providers let customers choose them, and one could choose another's id.
    private func keys(_ place: ClaimPlace) throws(TokenError) -> [ByteExactString] {
        guard let value = claims.value(at: place.query) else { throw .missingClaim(place.description) }
        let names: [String?]
        if let members = value.members {
            names = members.map(\.name.string)
        } else if let elements = value.elements {
            names = elements.map(\.string)
        } else {
            throw malformedKeys(place)
        }
        guard !names.isEmpty else { throw .missingClaim(place.description) }
        guard names.count <= IdentityPlaces.maximumNames else { throw malformedKeys(place) }
        var seen: Set<ByteExactString> = []
        var found: [ByteExactString] = []
        for name in names {
            guard let name, ExternalName.isValid(name) else { throw malformedKeys(place) }
            let text = ByteExactString(name)
            if seen.insert(text).inserted { found.append(text) }
        }
        return found
    }

    private func name(_ value: JSONValue, _ place: ClaimPlace) throws(TokenError) -> ByteExactString {
        guard let name = value.string, ExternalName.isValid(name) else {
            throw .malformedClaim(place.description, mustBe: Self.nameForm)
        }
        return ByteExactString(name)
    }

    private func malformedKeys(_ place: ClaimPlace) -> TokenError {
        .malformedClaim(place.description, mustBe: Self.keysForm + Self.nameForm)
    }
}

import JSONText

/// A payload's claims.
///
/// Settings specify the places of user and organization, so these are read by their places.
struct TokenPayload {
    let claims: JSONValue

    init(_ json: [UInt8]) throws(TokenError) {
        claims = try TokenObject.parsing(json)
    }

    private func claim(_ name: StaticString) -> JSONValue? { claims[name] }

    /// Seconds since 1970, rounded down; RFC 7519 allows fractions.
    func seconds(_ name: StaticString) throws(TokenError) -> Int64? {
        guard let value = claim(name) else { return nil }
        // Beyond this, seconds are no longer exact, and sums of them might overflow.
        guard value.kind == .number, let seconds = Double(String(decoding: value.raw, as: UTF8.self)),
            seconds.magnitude < 9_007_199_254_740_992
        else { throw .malformedClaim("\(name)", mustBe: "a number of seconds since 1970") }
        return Int64(seconds.rounded(.down))
    }

    func text(_ name: StaticString) throws(TokenError) -> String? {
        guard let value = claim(name) else { return nil }
        guard let text = value.string else { throw .malformedClaim("\(name)", mustBe: "a text") }
        return text
    }

    /// A text, or a list of texts.
    func texts(_ place: ClaimPlace) throws(TokenError) -> [String]? {
        guard let value = claims.value(at: place.query) else { return nil }
        if let text = value.string { return [text] }
        let texts = value.elements.map { $0.map(\.string) } ?? [nil]
        guard texts.allSatisfy({ $0 != nil }) else {
            throw .malformedClaim(place.description, mustBe: "a text or a list of texts")
        }
        return texts.compactMap { $0 }
    }
}

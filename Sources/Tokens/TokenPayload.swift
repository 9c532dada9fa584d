import FoundationEssentials
import JWTKit

/// A payload's claims. Which claims name the user and the organization is a setting, so they are read by name.
struct TokenPayload {
    private let claims: [String: Claim]

    /// Claims of other types than these are nobody's business here.
    private enum Claim: Decodable {
        case text(String)
        case number(Double)
        case texts([String])
        case other

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let text = try? container.decode(String.self) {
                self = .text(text)
            } else if let number = try? container.decode(Double.self) {
                self = .number(number)
            } else if let texts = try? container.decode([String].self) {
                self = .texts(texts)
            } else {
                self = .other
            }
        }
    }

    init(_ json: [UInt8]) throws(TokenError) {
        let decoder = DefaultJWTParser().jsonDecoder
        guard let claims = try? decoder.decode([String: Claim].self, from: Data(json)) else { throw .malformed }
        self.claims = claims
    }

    /// Seconds since 1970, rounded down; RFC 7519 allows fractions.
    func seconds(_ name: String) throws(TokenError) -> Int64? {
        switch claims[name] {
        case nil: return nil
        // Beyond this, seconds are no longer exact, and sums of them might overflow.
        case .number(let value) where value.magnitude < 9_007_199_254_740_992: return Int64(value.rounded(.down))
        default: throw .malformedClaim(name)
        }
    }

    func text(_ name: String) throws(TokenError) -> String? {
        switch claims[name] {
        case nil: return nil
        case .text(let text): return text
        default: throw .malformedClaim(name)
        }
    }

    /// A text, or a list of them.
    func texts(_ name: String) throws(TokenError) -> [String]? {
        switch claims[name] {
        case nil: return nil
        case .text(let text): return [text]
        case .texts(let texts): return texts
        default: throw .malformedClaim(name)
        }
    }

    func uuid(_ name: String) throws(TokenError) -> UUID {
        guard let text = try text(name) else { throw .missingClaim(name) }
        // Foundation takes a plus sign for a digit, so two texts would name one user
        guard let uuid = UUID(uuidString: text), uuid.uuidString.lowercased() == text.lowercased() else {
            throw .malformedClaim(name)
        }
        return uuid
    }
}

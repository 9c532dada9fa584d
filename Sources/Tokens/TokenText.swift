import JSONText

/// A token's parts, before any of them is trusted.
struct TokenText {
    /// The members of the header that decide how the token is verified.
    struct Header {
        let alg: String
        let kid: String?

        init(_ json: [UInt8]) throws(TokenError) {
            let members = try TokenObject.parsing(json)
            guard let alg = members["alg"]?.string else { throw .malformedHeader("alg", mustBe: "a text") }
            self.alg = alg
            kid = members["kid"]?.string
            if let kid = members["kid"], kid.kind != .string, !kid.isNull {
                throw .malformedHeader("kid", mustBe: "a text")
            }
            // extensions that the reader must understand; we understand none
            if let critical = members["crit"], !critical.isNull {
                throw .malformedHeader("crit", mustBe: "absent: no extensions are understood")
            }
        }
    }

    let header: Header
    /// Header, dot and payload, as they were signed.
    let signed: ArraySlice<UInt8>
    let payload: [UInt8]
    let signature: [UInt8]

    init(_ bytes: [UInt8]) throws(TokenError) {
        let dots = bytes.indices.filter { bytes[$0] == UInt8(ascii: ".") }
        guard dots.count == 2,
            let header = Base64URL.decode(bytes[..<dots[0]]),
            let payload = Base64URL.decode(bytes[(dots[0] + 1)..<dots[1]]),
            let signature = Base64URL.decode(bytes[(dots[1] + 1)...])
        else { throw .malformed }
        self.header = try Header(header)
        self.signed = bytes[..<dots[1]]
        self.payload = payload
        self.signature = signature
    }
}

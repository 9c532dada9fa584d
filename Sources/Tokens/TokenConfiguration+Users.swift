import FoundationEssentials
import JSONText
package import SyncModel

extension TokenConfiguration {
    /// No token of the issuer can be for a user of this text.
    package struct UnusableSubject: Error {}

    /// The user for a text in an issuer's tokens, so that operators can admit users.
    ///
    /// It is the user that the issuer's tokens would be taken for. For an issuer that no setting names yet, the text is
    /// a subject, and also for several issuers of one name that do not agree.
    ///
    /// - Parameter issuer: as it is remembered.
    package func user(called text: ByteExactString, by issuer: ByteExactString) throws(UnusableSubject)
        -> TokenClaims.User
    {
        let forms = Set(issuers.filter { $0.rememberedAs == issuer }.map(\.places.userForm))
        guard !forms.isEmpty, !forms.contains(.mapped) else { return .subject(text) }
        if let id = UUID(parsing: text.string) { return .id(id) }
        guard forms.contains(.either) else { throw UnusableSubject() }
        return .subject(text)
    }
}

extension TokenVerifier {
    /// ``TokenConfiguration/user(called:by:)`` of the settings in force.
    package func user(
        called text: ByteExactString,
        by issuer: ByteExactString
    ) throws(TokenConfiguration.UnusableSubject) -> TokenClaims.User {
        try configuration.user(called: text, by: issuer)
    }
}

import JSONText
package import SyncModel

/// An issuer, and the issuer's name for an organization or a user: `{"issuer", "external_id"}` or `{"issuer",
/// "subject"}`.
package struct IssuedName: Sendable {
    package private(set) var issuer: ByteExactString = ""
    package private(set) var name: ByteExactString = ""

    package init() {}

    /// - Parameters:
    ///   - what: the name of the object in errors, such as "a user".
    ///   - member: the name of the second member, which has the issuer's name for the organization or the user:
    ///     `external_id` or `subject`.
    package static func table(_ what: String, _ member: String) -> MemberTable<Self, Never> {
        let issuer = "must be a text of up to \(ExternalName.maximumIssuerBytes) bytes without control characters"
        let name = "must be a text of 1 to \(ExternalName.maximumBytes) bytes without control characters"
        return MemberTable(what, missing: .alone) {
            BodyMember("issuer", .exact(issuer) { ExternalName.isValidIssuer($0) }, into: \.issuer)
                .required("issuer is missing")
            BodyMember(member, .exact(name) { ExternalName.isValid($0) }, into: \.name)
                .required("\(member) is missing")
        }
    }
}

extension MemberKind<ByteExactString> {
    fileprivate static func exact(_ form: String, _ isValid: @escaping @Sendable (String) -> Bool) -> Self {
        Self(form) { $0.string.flatMap { isValid($0) ? ByteExactString($0) : nil } }
    }
}

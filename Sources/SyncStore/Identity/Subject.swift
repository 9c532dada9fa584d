package import SyncModel

/// An issuer's name of a user.
package struct Subject: Sendable, Hashable {
    /// The issuer's name, or the name under which the operator has it remembered.
    package let issuer: ByteExactString
    /// 1 to 255 bytes, without control characters.
    package let text: ByteExactString

    package init(issuer: ByteExactString, text: ByteExactString) {
        self.issuer = issuer
        self.text = text
    }
}

/// An issuer's name of an organization.
package struct ExternalID: Sendable, Hashable {
    /// The issuer, as in ``Subject/issuer``.
    package let issuer: ByteExactString
    /// 1 to 255 bytes, without control characters.
    package let id: ByteExactString

    package init(issuer: ByteExactString, id: ByteExactString) {
        self.issuer = issuer
        self.id = id
    }
}

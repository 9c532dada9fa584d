package import SyncModel

/// What an issuer calls a user.
package struct Subject: Sendable, Hashable {
    /// Whose words these are: the issuer's name, or what the operator has it remembered as.
    package let issuer: ExactText
    /// 1 to 255 bytes, without control characters.
    package let text: ExactText

    package init(issuer: ExactText, text: ExactText) {
        self.issuer = issuer
        self.text = text
    }
}

/// What an issuer calls an organization.
package struct ExternalID: Sendable, Hashable {
    /// Whose words these are, as in ``Subject/issuer``.
    package let issuer: ExactText
    /// 1 to 255 bytes, without control characters.
    package let id: ExactText

    package init(issuer: ExactText, id: ExactText) {
        self.issuer = issuer
        self.id = id
    }
}

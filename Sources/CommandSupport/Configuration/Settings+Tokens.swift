package import FoundationEssentials
package import Tokens

extension Settings {
    /// Returns the accepted tokens. Reads every file of keys, secrets and issuers, because the files may have changed.
    ///
    /// - Throws: an error if no key is configured, or if a file cannot be read. If public keys are configured and
    ///   `SLUICE_JWT_EXCLUSIVE_KEYS` is not `yes`, also throws an error if `SLUICE_JWT_ISSUER` or `SLUICE_JWT_AUDIENCE`
    ///   is not set.
    package func tokenConfiguration() throws(ConfigurationError) -> TokenConfiguration {
        let hasOwnKeys = jwtSecret != nil || jwtKeysFile != nil || jwtJWKSURL != nil
        guard hasOwnKeys || jwtIssuersFile != nil else {
            let problem =
                "No key verifies tokens: set \(Setting.jwtSecret.variable) (or …_FILE), "
                + "\(Setting.jwtKeysFile.variable), "
                + "\(Setting.jwtJWKSURL.variable) or \(Setting.jwtIssuersFile.variable)."
            throw ConfigurationError([problem] + unknownNames)
        }
        try requireNames()
        var configuration = TokenConfiguration(
            secret: jwtSecret.map { Array($0.utf8) },
            jwksURL: jwtJWKSURL,
            issuer: jwtIssuer,
            audience: jwtAudience,
            places: identityPlaces
        )
        configuration.own.audienceClaim = jwtAudienceClaim
        configuration.own.channels = channelClaim
        configuration.leewaySeconds = Int64(jwtLeewaySeconds)
        if case .fixed(let organization) = identityPlaces.organization {
            configuration.own.organizations = .only([organization])
        }
        var problems = ConfigurationProblems()
        if let jwtKeysFile {
            let keys = problems.gather { () throws(ConfigurationError) in try Self.keys(in: jwtKeysFile, .jwtKeysFile) }
            configuration.own.keys = keys.map { [$0] } ?? []
        }
        if let jwtIssuersFile {
            let own = hasOwnKeys ? jwtIssuer : nil
            let file = IssuersFile(
                path: jwtIssuersFile,
                defaults: configuration.own,
                hasExclusiveKeys: hasExclusiveKeys
            )
            let issuers = problems.gather { () throws(ConfigurationError) in try file.issuers(excluding: own) }
            configuration.otherIssuers = issuers ?? []
        }
        try problems.check()
        return configuration
    }

    /// Returns the verifier of clients' tokens, and the signer of tokens for upstreams. If there is no signing key, the
    /// signer is nil.
    ///
    /// - Throws: an error with the problems of all keys.
    package func keys() async throws(ConfigurationError) -> (verifier: TokenVerifier, signer: RequestSigner?) {
        var problems = ConfigurationProblems()
        let verifier = await problems.gather { () async throws(ConfigurationError) in try await tokenVerifier() }
        let signer = await problems.gather { () async throws(ConfigurationError) in try await requestSigner() }
        try problems.check()
        guard let verifier, let signer else { throw ConfigurationError("The keys cannot be used.") }
        return (verifier, signer)
    }

    /// Requires the settings for issuer and audience if public keys are configured.
    ///
    /// If the operator declares that the keys sign for this gateway only, the settings are not required.
    ///
    /// Identity providers usually sign the tokens of all their customers with the same keys. Without issuer and
    /// audience, a token that was issued for another service would be accepted.
    private func requireNames() throws(ConfigurationError) {
        let keys = [(jwtJWKSURL, Setting.jwtJWKSURL), (jwtKeysFile, .jwtKeysFile)].first { $0.0 != nil }?.1
        guard let keys, !hasExclusiveKeys else { return }
        let names = [(jwtIssuer, Setting.jwtIssuer), (jwtAudience, .jwtAudience)].filter { $0.0 == nil }.map(
            \.1.variable
        )
        guard !names.isEmpty else { return }
        let problem =
            "\(keys.variable) needs \(names.joined(separator: " and ")): the issuer may sign for others with the "
            + "same keys, "
            + "as identity providers do for all their customers, and any of those tokens would be accepted. If "
            + "the keys sign tokens for this gateway only, set \(Setting.jwtExclusiveKeys.variable)=yes."
        throw ConfigurationError([problem] + unknownNames)
    }

    /// Returns the signer of tokens for upstreams; nil if there is no signing key.
    ///
    /// - Throws: an error if the key's file cannot be read or used.
    package func requestSigner() async throws(ConfigurationError) -> RequestSigner? {
        guard let signingKeyFile else { return nil }
        let pem = try Self.keys(in: signingKeyFile, .signingKeyFile)
        do {
            // the signer writes only top-level claims. If the settings read a claim from another place, such as a path
            // into a nested object, the signed token has the claim under its default name, `sub` or `org`.
            return try await RequestSigner(
                pem: pem,
                userClaim: identityPlaces.user.plainName ?? "sub",
                organizationClaim: identityPlaces.organization.claimName ?? "org",
                now: SystemClock.now
            )
        } catch {
            throw ConfigurationError("\(Setting.signingKeyFile.variable) cannot be used: \(error)")
        }
    }

    /// Returns a function that creates the tokens of `signed` credentials for an organization and a user; nil if there
    /// is no signing key.
    ///
    /// - Throws: an error if the key's file cannot be read or used.
    package func upstreamSigning() async throws(ConfigurationError)
        -> (@Sendable (_ organization: UUID, _ user: UUID) async throws -> String)?
    {
        guard let signer = try await requestSigner() else { return nil }
        return { try await signer.sign(organization: $0, user: $1) }
    }

    private static func keys(in file: String, _ setting: Setting) throws(ConfigurationError) -> TokenKeySource {
        guard let data = FileManager.default.contents(atPath: file) else {
            throw ConfigurationError("\(setting.variable) names \(file), which cannot be read.")
        }
        if let defect = FileForm.defect(data) {
            throw ConfigurationError("\(setting.variable) names \(file), which \(defect).")
        }
        return TokenKeySource(name: file, text: String(decoding: FileForm.withoutMark(data), as: UTF8.self))
    }

    package func tokenVerifier() async throws(ConfigurationError) -> TokenVerifier {
        let configuration = try tokenConfiguration()
        do {
            return try await TokenVerifier(configuration: configuration)
        } catch {
            throw ConfigurationError("The JWT keys cannot be used: \(error)")
        }
    }
}

import Foundation
import Tokens

extension Settings {
    /// Which tokens are accepted. Reads every file of keys, secrets and issuers, which may have changed.
    ///
    /// - Throws: where no key is configured, or a file cannot be read.
    func tokenConfiguration() throws(ConfigurationError) -> TokenConfiguration {
        let hasOwnKeys = jwtSecret != nil || jwtKeysFile != nil || jwtJWKSURL != nil
        guard hasOwnKeys || jwtIssuersFile != nil else {
            throw ConfigurationError(
                "No key verifies tokens: set \(Setting.jwtSecret.variable) (or …_FILE), \(Setting.jwtKeysFile.variable), "
                    + "\(Setting.jwtJWKSURL.variable) or \(Setting.jwtIssuersFile.variable)."
            )
        }
        var configuration = TokenConfiguration(
            secret: jwtSecret.map { Array($0.utf8) },
            jwksURL: jwtJWKSURL,
            issuer: jwtIssuer,
            audience: jwtAudience,
            userClaim: jwtUserClaim,
            organizationClaim: jwtOrganizationClaim,
            leewaySeconds: Int64(jwtLeewaySeconds)
        )
        if let jwtKeysFile { configuration.keys = [try Self.keys(in: jwtKeysFile, .jwtKeysFile)] }
        if let jwtIssuersFile {
            let own = hasOwnKeys ? jwtIssuer : nil
            configuration.otherIssuers = try IssuersFile(path: jwtIssuersFile, defaults: configuration).issuers(
                beside: own
            )
        }
        return configuration
    }

    /// What signs tokens for upstreams; nil where there is no key for it.
    ///
    /// - Throws: where the file of the key cannot be read, or used.
    func requestSigner() async throws(ConfigurationError) -> RequestSigner? {
        guard let signingKeyFile else { return nil }
        let pem = try Self.keys(in: signingKeyFile, .signingKeyFile)
        do {
            return try await RequestSigner(
                pem: pem,
                userClaim: jwtUserClaim,
                organizationClaim: jwtOrganizationClaim,
                now: SystemClock.now
            )
        } catch {
            throw ConfigurationError("\(Setting.signingKeyFile.variable) cannot be used: \(error)")
        }
    }

    private static func keys(in file: String, _ setting: Setting) throws(ConfigurationError) -> TokenKeySource {
        guard let data = FileManager.default.contents(atPath: file) else {
            throw ConfigurationError("\(setting.variable) names \(file), which cannot be read.")
        }
        return TokenKeySource(name: file, text: String(decoding: data, as: UTF8.self))
    }

    /// What decides about tokens.
    func tokenVerifier() async throws(ConfigurationError) -> TokenVerifier {
        let configuration = try tokenConfiguration()
        do {
            return try await TokenVerifier(configuration: configuration)
        } catch {
            throw ConfigurationError("The JWT keys cannot be used: \(error)")
        }
    }
}

import Foundation
import Tokens

extension Settings {
    /// Which tokens are accepted.
    ///
    /// - Throws: where no key is configured, or the file of keys cannot be read.
    func tokenConfiguration() throws(ConfigurationError) -> TokenConfiguration {
        guard jwtSecret != nil || jwtKeysFile != nil else {
            throw ConfigurationError(
                "No key verifies tokens: set \(Setting.jwtSecret.variable) (or …_FILE) or \(Setting.jwtKeysFile.variable)."
            )
        }
        var configuration = TokenConfiguration(
            secret: jwtSecret.map { Array($0.utf8) },
            issuer: jwtIssuer,
            audience: jwtAudience,
            userClaim: jwtUserClaim,
            organizationClaim: jwtOrganizationClaim,
            leewaySeconds: Int64(jwtLeewaySeconds)
        )
        if let jwtKeysFile {
            guard let data = FileManager.default.contents(atPath: jwtKeysFile) else {
                throw ConfigurationError("\(Setting.jwtKeysFile.variable) names \(jwtKeysFile), which cannot be read.")
            }
            configuration.keys = [TokenKeySource(name: jwtKeysFile, text: String(decoding: data, as: UTF8.self))]
        }
        return configuration
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

import CommandSupport
import SyncHTTP

/// The settings of `sluice dev`: its own database, addresses and secrets, and the environment's other settings.
enum DevelopmentSettings {
    /// Settings that dev makes itself.
    private static let own: [Setting] = [
        .databaseURL, .publicAddress, .operationsAddress, .jwtSecret, .jwtKeysFile, .jwtJWKSURL, .jwtIssuersFile,
        .jwtIssuer, .jwtAudience, .jwtAudienceClaim, .jwtExclusiveKeys, .jwtUserClaim, .jwtUserIDs,
        .jwtOrganizationClaim, .jwtOrganizationKeys, .jwtOrganization, .jwtOrganizationIDs, .operatorToken,
    ]

    /// Variables of the environment that have no effect here.
    static func ignored(in environment: [String: String]) -> [String] {
        ownVariables.filter { environment[$0] != nil }
    }

    static func load(
        environment: [String: String],
        databaseURI: String,
        directory: DevelopmentDirectory,
        ports: (public: Int, operations: Int)
    ) async throws -> Settings {
        var variables = environment.filter { !ownVariables.contains($0.key) }
        variables[Setting.databaseURL.variable] = databaseURI
        variables[Setting.publicAddress.variable] = address(ports.public).description
        variables[Setting.operationsAddress.variable] = address(ports.operations).description
        variables[Setting.jwtSecret.variable] = try directory.secret("jwt-secret")
        variables[Setting.operatorToken.variable] = try directory.secret("operator-token")
        // For development, the log shows warnings, not every start-up detail.
        if variables[Setting.logLevel.variable] == nil { variables[Setting.logLevel.variable] = "notice" }
        if variables[Setting.logFormat.variable] == nil { variables[Setting.logFormat.variable] = "text" }
        return try await ConfigurationOptions.explained { () async throws(ConfigurationError) in
            try Settings.load(configFile: nil, environment: variables)
        }
    }

    static func address(_ port: Int) -> ListenAddress { ListenAddress(host: "127.0.0.1", port: port) }

    private static let ownVariables =
        own.map(\.variable) + own.compactMap(\.fileName).map(Setting.variable(for:))
        + [Setting.variable(for: Setting.configFile)]
}

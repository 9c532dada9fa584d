import Logging
import SyncHTTP
import SyncModel

/// Every setting with a value that was checked.
struct Settings: Sendable {
    var databaseURL: String
    var databasePoolSize: Int
    var committers: Int

    var publicAddress: ListenAddress
    var operationsAddress: ListenAddress

    var jwtSecret: String?
    var jwtKeysFile: String?
    var jwtJWKSURL: String?
    var jwtIssuersFile: String?
    var jwtIssuer: String?
    var jwtAudience: String?
    var jwtUserClaim: String
    var jwtOrganizationClaim: String
    var jwtLeewaySeconds: Int
    var operatorTokens: OperatorTokens?
    var signingKeyFile: String?
    var masterKeyFile: String?
    /// What ``masterKeyFile`` holds; nil where nothing is sealed.
    var masterKeys: MasterKeys?

    var retryBaseSeconds: Double
    var retryCapSeconds: Double
    var leaseSeconds: Double
    var maxLanes: Int

    var retentionSucceededDays: Double
    var retentionDays: Double
    var retentionIntervalSeconds: Double

    var logLevel: Logger.Level
    var logFormat: LogFormat?
    var metricsOrganizations: Int

    var maxMutations: Int
    var maxBodyBytes: Int
    var maxPayloadBytes: Int
    var maxConnections: Int
    var maxBodyBytesInFlight: Int

    /// What an operator should know although it stops nothing.
    var warnings: [String]
    /// Each setting as it may be shown: secrets are "set" or "not set".
    var inForce: [(name: String, value: String)]

    /// Reads the environment and, where `configFile` or the environment names one, a file.
    static func load(
        configFile: String?,
        environment: [String: String]
    ) throws(ConfigurationError) -> Settings {
        let variables = SettingsSource.environment(environment)
        var sources = [variables]
        let variable = try variables.text(Setting.configFile)
        if let path = configFile ?? variable { sources.append(try .file(path)) }
        var reader = SettingsReader(sources: sources)
        var settings = Settings(&reader)
        settings.warnings += sources.flatMap(\.unknownNames)
        settings.check(&reader)
        settings.readMasterKeys(&reader)
        guard reader.problems.isEmpty else { throw ConfigurationError(reader.problems) }
        return settings
    }

    /// Reads all, so that all problems are told at once; a value with a problem is never used.
    private init(_ reader: inout SettingsReader) {
        let nowhere = ListenAddress(host: "", port: 0)
        databaseURL = reader.text(.databaseURL) ?? ""
        databasePoolSize = reader.number(.databasePoolSize)
        committers = reader.number(.committers)
        publicAddress = reader.text(.publicAddress).flatMap(ListenAddress.init(parsing:)) ?? nowhere
        operationsAddress = reader.text(.operationsAddress).flatMap(ListenAddress.init(parsing:)) ?? nowhere
        jwtSecret = reader.text(.jwtSecret)
        jwtKeysFile = reader.text(.jwtKeysFile)
        jwtJWKSURL = reader.text(.jwtJWKSURL)
        jwtIssuersFile = reader.text(.jwtIssuersFile)
        jwtIssuer = reader.text(.jwtIssuer)
        jwtAudience = reader.text(.jwtAudience)
        jwtUserClaim = reader.text(.jwtUserClaim) ?? ""
        jwtOrganizationClaim = reader.text(.jwtOrganizationClaim) ?? ""
        jwtLeewaySeconds = reader.number(.jwtLeewaySeconds)
        operatorTokens = reader.text(.operatorToken).flatMap(OperatorTokens.init(parsing:))
        signingKeyFile = reader.text(.signingKeyFile)
        masterKeyFile = reader.text(.masterKeyFile)
        retryBaseSeconds = reader.decimal(.retryBaseSeconds)
        retryCapSeconds = reader.decimal(.retryCapSeconds)
        leaseSeconds = reader.decimal(.leaseSeconds)
        maxLanes = reader.number(.maxLanes)
        retentionSucceededDays = reader.decimal(.retentionSucceededDays)
        retentionDays = reader.decimal(.retentionDays)
        retentionIntervalSeconds = reader.decimal(.retentionIntervalSeconds)
        logLevel = reader.text(.logLevel).flatMap(Logger.Level.init(rawValue:)) ?? .info
        logFormat = reader.text(.logFormat).flatMap(LogFormat.init(rawValue:))
        metricsOrganizations = reader.number(.metricsOrganizations)
        maxMutations = reader.number(.maxMutations)
        maxBodyBytes = reader.number(.maxBodyBytes)
        maxPayloadBytes = reader.number(.maxPayloadBytes)
        maxConnections = reader.number(.maxConnections)
        maxBodyBytesInFlight = reader.number(.maxBodyBytesInFlight)
        warnings = []
        inForce = reader.inForce
    }

    private mutating func check(_ reader: inout SettingsReader) {
        reader.require(
            publicAddress != operationsAddress || publicAddress.port == 0,
            "\(Setting.publicAddress.variable) and \(Setting.operationsAddress.variable) must differ."
        )
        reader.require(
            maxPayloadBytes <= maxBodyBytes,
            "\(Setting.maxPayloadBytes.variable) must not be more than \(Setting.maxBodyBytes.variable), \(maxBodyBytes)."
        )
        reader.require(
            maxBodyBytes <= maxBodyBytesInFlight,
            "\(Setting.maxBodyBytesInFlight.variable) must be at least \(Setting.maxBodyBytes.variable), \(maxBodyBytes)."
        )
        reader.require(
            retryBaseSeconds <= retryCapSeconds,
            "\(Setting.retryBaseSeconds.variable) must not be more than \(Setting.retryCapSeconds.variable)."
        )
        reader.require(
            retentionSucceededDays <= retentionDays,
            "\(Setting.retentionSucceededDays.variable) must not be more than \(Setting.retentionDays.variable)."
        )
        reader.require(
            jwtUserClaim != jwtOrganizationClaim,
            "\(Setting.jwtUserClaim.variable) and \(Setting.jwtOrganizationClaim.variable) must differ."
        )
        if let jwtSecret, jwtSecret.utf8.count < 32 {
            warnings.append("\(Setting.jwtSecret.variable) has \(jwtSecret.utf8.count) bytes; 32 or more are good.")
        }
        if let jwtJWKSURL, KeySetURL.isOpenToForgery(jwtJWKSURL) {
            warnings.append("\(Setting.jwtJWKSURL.variable) is http: whoever is on the way can put in keys; use https.")
        }
    }
}

import Logging
import SyncHTTP
import SyncModel
import SyncStore

/// Every setting with a value that was checked.
struct Settings: Sendable {
    var databaseURL: String
    var databasePoolSize: Int
    var committers: Int
    var databasePatience: DatabasePatience

    var publicAddress: ListenAddress
    var operationsAddress: ListenAddress

    var jwtSecret: String?
    var jwtKeysFile: String?
    var jwtJWKSURL: String?
    var jwtIssuersFile: String?
    var jwtIssuer: String?
    var jwtAudience: String?
    /// Whether public keys are said to sign for this gateway alone.
    var hasExclusiveKeys: Bool
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
    var maxAnswerBytesInFlight: Int
    var maxDevicesPerUser: Int

    /// What an operator should know although it stops nothing.
    var warnings: [String]
    /// Names that mean nothing, each with the one that may have been meant: part of the warnings, and perhaps the cause
    /// where something is missing.
    private(set) var unknownNames: [String] = []
    /// Whether nobody said which database, so that the default is tried.
    private(set) var isDatabaseUnset = false
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
        settings.unknownNames = sources.flatMap(\.unknownNames)
        settings.warnings += settings.unknownNames
        settings.isDatabaseUnset = !reader.isSet(.databaseURL)
        settings.check(&reader)
        settings.readMasterKeys(&reader)
        guard reader.problems.isEmpty else { throw ConfigurationError(reader.problems + settings.unknownNames) }
        return settings
    }

    /// What is tried where nobody said which database, and what else was said instead: to stand behind what is wrong with
    /// the database. Empty where one was named.
    var databaseHint: String {
        guard isDatabaseUnset, let fallback = Setting.databaseURL.fallback else { return "" }
        let tried = "\(Setting.databaseURL.variable) is not set, so \(fallback) is tried"
        let names = unknownNames.map { "; " + $0 }.joined()
        return "; " + tried + ", on the host and as the user that libpq takes (PGHOST, PGUSER, …)" + names
    }

    /// Reads all, so that all problems are told at once; a value with a problem is never used.
    private init(_ reader: inout SettingsReader) {
        let nowhere = ListenAddress(host: "", port: 0)
        databaseURL = reader.text(.databaseURL) ?? ""
        databasePoolSize = reader.number(.databasePoolSize)
        committers = reader.number(.committers)
        databasePatience = DatabasePatience(statement: .seconds(reader.decimal(.statementSeconds)))
        publicAddress = reader.text(.publicAddress).flatMap(ListenAddress.init(parsing:)) ?? nowhere
        operationsAddress = reader.text(.operationsAddress).flatMap(ListenAddress.init(parsing:)) ?? nowhere
        jwtSecret = reader.text(.jwtSecret)
        jwtKeysFile = reader.text(.jwtKeysFile)
        jwtJWKSURL = reader.text(.jwtJWKSURL)
        jwtIssuersFile = reader.text(.jwtIssuersFile)
        jwtIssuer = reader.text(.jwtIssuer)
        jwtAudience = reader.text(.jwtAudience)
        hasExclusiveKeys = reader.text(.jwtExclusiveKeys) == "yes"
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
        maxAnswerBytesInFlight = reader.number(.maxAnswerBytesInFlight)
        maxDevicesPerUser = reader.number(.maxDevicesPerUser)
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

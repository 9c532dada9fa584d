import Foundation
import GroupCommit
import Postgres
import StoreSupport

@testable import AdministrationFeature
@testable import EncryptionFeature
@testable import IngestFeature
@testable import OperatorsFeature
@testable import RetentionFeature
@testable import SyncStore
@testable import TransferFeature
@testable import UsersFeature
@testable import WebhooksFeature

/// The statements of one flow or feature, which are in one file of `docs/sql`.
struct StatementFlow {
    let name: String
    let statements: [Statement]

    private init(_ name: String, _ statements: [Statement]...) {
        self.name = name
        self.statements = statements.flatMap(\.self)
    }

    private static let aged = Gateway.tables.compactMap(AgedTable.init)

    static let all = [
        Self("transactions", [Query.planByIndex.statement, CommitterConnection.limitStatement]),
        Self(
            "push",
            GroupStatements.reading,
            GroupStatements.writing,
            LocalIDStatements.all,
            EntityStatements.all,
            ReferenceRows.all,
            LaneRows.statements,
            QuotaStatements.all
        ),
        Self(
            "lanes",
            LaneStatements.all,
            LaneStore.statements,
            LaneStore.successStatements,
            AnsweredRequestRow.statements,
            [KnownIDs.statement]
        ),
        Self("settling", SettleStatements.reading, SettleStatements.writing, SettleCandidates.statements),
        Self(
            "pull",
            PullStatements.all,
            DeviceRegistry.statements,
            [PendingFeedChanges.statement, PendingFeedChanges.readersStatement, FeedReader.statement]
        ),
        Self(
            "channels",
            ChannelStatements.all,
            ChannelFeedStatements.all,
            ChannelEvaluation.statements,
            TokenGrants.statements
        ),
        Self("events", EventReader.statements, ChangeNotifier.statements, ReplicaHints.statements),
        Self(
            "reading",
            MutationReader.statements,
            MutationReader.organizationStatements,
            [MutationReader.recordsStatement],
            MappingReader.statements,
            [MappingReader.listStatement],
            BacklogReader.statements,
            FailureSearcher.statements,
            [FailureCounts.ofOrganizations]
        ),
        Self(
            "callers",
            Catalog.statements,
            Identities.statements,
            LongLivedSessions.statements,
            [Administration.subjectsStatement]
        ),
        Self(
            "sealing",
            OrganizationKeys.statements,
            MasterKeyCheck.statements,
            SealStatements.all,
            Gateway.tables.compactMap(SealedTable.init).flatMap(\.statements),
            Gateway.tables.compactMap(SealedSettings.init).flatMap(\.statements)
        ),
        Self(
            "ingest",
            IngestStatements.reading,
            IngestStatements.writing,
            IngestCommit.statements,
            IngestPruning.statements
        ),
        Self(
            "schema",
            Schema.obstacleStatements,
            [Cluster.detection, Distribution.isInstalledStatement, Roles.isGrantedStatement]
        ),
        Self(
            "administration",
            Administration.statements,
            Administration.typeStatements,
            Administration.readerStatements,
            Administration.externalIDStatements,
            Administration.channelStatements,
            Administration.upstreamStatements,
            [Administration.closeStatement]
        ),
        Self(
            "administration-purge",
            Administration.restoreStatements,
            Administration.extentStatements(Gateway.tables).map(\.1),
            Administration.purgeStatements(Gateway.tables),
            Administration.lastStatements(Gateway.tables)
        ),
        Self("audit", AuditStatements.all, EndedSessions.statements),
        Self("encryption", KeyRotation.statements, KeyRotation.rowStatements),
        Self(
            "sources",
            ServiceTokens.statements,
            Administration.tokenStatements,
            SourceStatements.all,
            SourceReceivers.statements,
            SourceAdminStatements.all,
            [Administration.sourcesStatement]
        ),
        Self(
            "operators",
            NowStatements.all,
            FailureGroups.statements,
            FailureStatements.all,
            [FailureList.byIDStatement],
            MutationHistoryStatements.all,
            LaneListing.statements,
            StoppedLanes.statements,
            RecentStatements.all,
            EntityListing.statements,
            [Throughput.completed],
            [UserExplainer.isKnownStatement, UserExplainer.heldStatement]
        ),
        Self("operations", [OperationDisplay.statement], OperationStatements.all),
        Self(
            "retention",
            RetentionStatements.all,
            aged.flatMap(\.statements) + [RetentionStatements.debts(aged)],
            [RetentionStatus.statement],
            AgedRetention.statements,
            LocalIDRetention.statements,
            DeliveryRetention.statements,
            TombstoneRetention.statements,
            ChannelRetention.statements,
            MappingRetention.statements,
            ExpiredFailures.statements,
            [NeededIDs.statement]
        ),
        Self("transfer", EntityExport.statements),
        Self(
            "users",
            Administration.userStatements,
            Administration.memberStatements,
            EntityScan.statements,
            ExportedRows.statements(Gateway.tables),
            ErasedRows(Gateway.tables).statements,
            MergedRows(Gateway.tables).statements,
            ErasureStatements.all,
            JoinStatements.all
        ),
        Self("webhooks", WebhookOutbox.statements, WebhookStatements.all, WebhookAdminStatements.all),
    ]

    /// The file's text.
    ///
    /// - Parameter purposes: the purpose of each statement, by the statement's name.
    func text(_ purposes: [String: String]) -> String {
        statements.map { statement in
            var lines = ["-- \(statement.name)"]
            if let purpose = purposes[statement.name] { lines.append("-- \(purpose)") }
            if !statement.parameters.isEmpty {
                let names = statement.parameters.enumerated().map { "$\($0 + 1) \($1)" }
                lines.append("-- \(names.joined(separator: ", "))")
            }
            return lines.joined(separator: "\n") + "\n\(statement.sql);\n"
        }
        .joined(separator: "\n")
    }

    /// The first sentence of the comment at each statement's declaration, by the statements' names.
    static func purposes(in sources: URL) throws -> [String: String] {
        var purposes: [String: String] = [:]
        for file in try FileManager.default.subpathsOfDirectory(atPath: sources.path) where file.hasSuffix(".swift") {
            let text = try String(contentsOf: sources.appending(path: file), encoding: .utf8)
            let declarations = text.matches(of: /((?:\n +\/\/\/[^\n]*)+)\n[^\n]*= \w+\(\s*"(\w+)"/)
            for declaration in declarations {
                let comment = declaration.1.split(separator: "\n").map { $0.drop { $0 == " " || $0 == "/" } }
                let first = comment.prefix { !$0.isEmpty }.joined(separator: " ")
                let end = first.firstRange(of: ". ")?.lowerBound ?? first.endIndex
                purposes[String(declaration.2)] = String(first[..<end])
            }
        }
        return purposes
    }
}

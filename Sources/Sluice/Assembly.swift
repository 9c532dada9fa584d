import AdministrationFeature
import EncryptionFeature
import IngestFeature
import OperatorsFeature
import RetentionFeature
package import SyncHTTP
package import SyncStore
import UsersFeature
import WebhooksFeature

/// The features of the gateway. Their services start in this order and end in the opposite one.
package enum Assembly {
    package static let features: [any Feature.Type] = [
        AdministrationFeature.self,
        UsersFeature.self,
        EncryptionFeature.self,
        RetentionFeature.self,
        OperatorsFeature.self,
        WebhooksFeature.self,
        IngestFeature.self,
    ]

    /// The schema's tables: the engine's, and those of all features.
    package static let tables = StoredTable.engine + features.flatMap { $0.tables }
}

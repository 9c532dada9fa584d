import AdministrationFeature
package import CommandSupport
import EncryptionFeature
import IngestFeature
import OperatorsFeature
import RetentionFeature
package import SyncStore
import TransferFeature
import UsersFeature
import WebhooksFeature

/// The features of the gateway. Their services start in this order and end in the opposite order.
package enum Assembly {
    package static let features: [any GatewayFeature.Type] = [
        AdministrationFeature.self,
        UsersFeature.self,
        TransferFeature.self,
        EncryptionFeature.self,
        RetentionFeature.self,
        OperatorsFeature.self,
        WebhooksFeature.self,
        IngestFeature.self,
    ]

    /// The schema's tables: the tables of the engine and of all features.
    package static let tables = features.tables
}

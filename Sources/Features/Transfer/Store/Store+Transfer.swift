package import Foundation
package import SyncStore

extension Store {
    /// Writes down all entities of an organization.
    package func export(of organization: UUID, _ filter: EntityExport.Filter) -> EntityExport {
        EntityExport(pool: pool, catalog: catalog, failure: failure, organization: organization, filter: filter)
    }
}

package import JSONText
import SyncHTTP
package import SyncModel

extension EntityType: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("name", name)
        writer.member("id_space", idSpace.rawValue)
        writer.member("relations") { writer in
            for relation in relations {
                writer.name(relation.member)
                writer.string(relation.entityType)
            }
        }
        writer.member("visibility", visibility.rawValue)
        writer.member("default_priority", Int64(defaultPriority))
        writer.member("upstream", isForwarded)
        writer.member("on_erase", onErase.rawValue)
        writer.member("in_use", isInUse)
    }
}

package import JSONText

extension JSONWriter {
    /// Writes `next_local_ids`: by entity type the number that a device counts on with; null where none is left.
    package mutating func nextLocalIDs(_ counters: [(type: String, next: Int64?)]) {
        name("next_local_ids")
        beginObject()
        for (type, next) in counters {
            name(type)
            if let next { int(next) } else { null() }
        }
        endObject()
    }
}

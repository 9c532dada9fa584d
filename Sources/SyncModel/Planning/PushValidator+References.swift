import Foundation
import JSONText

/// The dependencies of an entry (product rule 3).
///
/// Those that it lists, and the client ids in its content.
extension PushValidator {
    func judgeDependencies(rank: Int, in judged: inout ValidatedMutation) throws(Problem) {
        for (place, id) in judged.mutation.dependencyIDs.enumerated() {
            let pointer = "/dependency_ids/\(place)"
            guard id != judged.mutation.id else {
                throw at(judged.index, pointer, Rule.dependencies, "a mutation cannot depend on itself")
            }
            if let known = snapshot.knownByID[id] {
                if known.status == .discarded, !known.satisfiesDependants {
                    throw dependencyRejected(judged.index, pointer)
                }
                if !known.satisfiesDependants { judged.stored.append(id) }
            } else if let entry = acceptedByID[id] {
                judged.wait(forEntry: entry)
            } else if rejectedIDs.contains(id) {
                throw dependencyRejected(judged.index, pointer)
            } else if let later = rankOfMutation[id], later > rank {
                throw at(judged.index, pointer, Rule.dependencies, "refers to a mutation that runs later in this push")
            } else if try refer(to: id, pointer, rank: rank, in: &judged) == nil {
                let isOwn = id == judged.mutation.created?.clientID
                let detail =
                    isOwn ? "a create cannot depend on itself" : "is not a known mutation or client id"
                throw at(judged.index, pointer, Rule.dependencies, detail)
            }
        }
    }

    func judgeReferences(rank: Int, in judged: inout ValidatedMutation) throws(Problem) {
        for id in judged.mutation.references where judged.references[id] == nil {
            // its own client id is no dependency
            if id == judged.mutation.entity.clientID { continue }
            _ = try refer(to: id, "/payload", rank: rank, in: &judged)
        }
        let index = judged.index
        if snapshot.localIDs.crowded.contains(index) {
            let detail =
                "the relations of a push may contain \(PushLocalIDs.limit) ids; send this in another push, with a "
                + "higher number"
            throw at(index, "/payload", Rule.range, detail)
        }
        for reference in snapshot.localIDs.references(of: index) where judged.references[reference.clientID] == nil {
            let pointer = "/payload" + reference.place.pointer
            if reference.clientID == judged.mutation.entity.clientID {
                guard judged.type.isForwarded, judged.mutation.operation == .create else { continue }
                let detail =
                    "refers to the entity that this mutation creates, to which the API has not assigned an id yet"
                throw at(index, pointer, Rule.dependencies, detail)
            }
            guard try refer(to: reference.clientID, pointer, rank: rank, in: &judged) == nil else { continue }
            throw at(index, pointer, Rule.entityReference, Self.unknown(reference.id))
        }
    }

    /// Text about an unknown integer id, which is refused.
    ///
    /// It has no meaning on other devices, unlike a UUID, which may be data.
    static func unknown(_ id: LocalID) -> String {
        "unknown local id \(id.number) of type '\(id.entityType)': this device neither created it nor"
            + " received it in a pull"
    }

    /// A client id's name for its client.
    private func name(of id: UUID) -> String {
        snapshot.localIDs.named[id].map { "local id \($0.number)" } ?? "client id \(id.lowercased)"
    }

    /// Resolves a client id of this user; nil when it is just data.
    private func refer(
        to id: UUID,
        _ pointer: String,
        rank: Int,
        in judged: inout ValidatedMutation
    ) throws(Problem) -> ValidatedMutation.Target? {
        let known = snapshot.mappings[id] ?? []
        let stored = known.filter { !$0.isAbandoned }
        // an entry does not wait for the entity that it creates itself
        let here = creates.all(of: id).filter { create in
            create.rank != rank && !stored.contains { $0.entityType == create.type }
        }
        guard !known.isEmpty || !here.isEmpty else { return nil }
        let named = here.map { (create: ClientReference(clientID: id, entityType: $0.type), rank: $0.rank) }
        let earlier = named.filter { createdBy[$0.create] != nil }
        let refused = named.contains { rejectedCreates.contains($0.create) && $0.rank <= rank }
        let types = Set(stored.map(\.entityType)).union(earlier.map(\.create.entityType))
        guard types.count <= 1 else {
            throw .ambiguous(name(of: id), types, at: "/mutations/\(judged.index)" + pointer)
        }
        let (target, type): (ValidatedMutation.Target, String)
        if let mapping = stored.first {
            (target, type) = (self.target(mapping, in: &judged), mapping.entityType)
        } else if let create = earlier.first?.create, let entry = createdBy[create] {
            (target, type) = (.entry(entry), create.entityType)
            judged.wait(forEntry: entry)
        } else if refused || !here.contains(where: { $0.rank > rank }) {
            // a create before this entry that was not accepted is a repetition of a discarded create
            throw dependencyRejected(judged.index, pointer)
        } else {
            let detail = "\(name(of: id)) is created later in this push; move the create before its first use"
            throw at(judged.index, pointer, Rule.dependencies, detail)
        }
        judged.refer(to: id, of: type, target)
        return target
    }

    func target(_ mapping: IDMapping, in judged: inout ValidatedMutation) -> ValidatedMutation.Target {
        if mapping.status == .resolved, let serverID = mapping.serverID { return .server(serverID) }
        judged.wait(for: mapping.mutationID)
        return .mutation(mapping.mutationID)
    }

    // MARK: - Problems

    func at(_ index: Int, _ pointer: String, _ rule: String, _ detail: String) -> Problem {
        Problem(.validationFailed, pointer: "/mutations/\(index)" + pointer, rule: rule, detail)
    }

    func dependencyRejected(_ index: Int, _ pointer: String) -> Problem {
        Problem(
            .dependencyRejected,
            pointer: "/mutations/\(index)" + pointer,
            rule: Rule.dependencies,
            "depends on a mutation that was rejected or discarded; correct that mutation and send both again"
        )
    }
}

import Postgres
import SyncStore

/// Checks a cluster of servers, if the database is one.
struct ClusterExamination {
    let settings: Settings

    /// Returns nothing if the database is plain PostgreSQL.
    func diagnoses() async -> [Diagnosis] {
        do {
            return try await SchemaCheck.withConnection(to: settings.databaseURL) { connection in
                let facts = try await Distribution.facts(on: connection)
                guard let version = facts.version else { return [] }
                guard facts.isSpread else { return [unspread(version, facts)] }
                let health = try await Distribution.health(on: connection)
                return [spread(version, facts)] + diagnoses(of: health) + (await commits(to: health.homes))
            }
        } catch {
            return [.failed("cluster", "cannot be asked: \(error.words)", "Look at its servers, and try again.")]
        }
    }

    private func unspread(_ version: String, _ facts: Distribution.Facts) -> Diagnosis {
        let finding = "Citus \(version) is installed; the tables lie on this server alone"
        if facts.workers == 0 { return .ok("cluster", finding) }
        let advice = "Its \(facts.workers) workers have none of them. While they are empty: sluice migrate --citus"
        return .warning("cluster", finding, advice)
    }

    private func spread(_ version: String, _ facts: Distribution.Facts) -> Diagnosis {
        let finding = "Citus \(version), \(facts.servers) servers, \(facts.shards) shards of each table"
        // the first version whose texts were tried
        if let major = version.split(separator: ".").first.flatMap({ Int($0) }), major < 13 {
            return .warning("cluster", finding, "Use Citus 13: earlier ones were not tried.")
        }
        guard facts.shards > 4 * max(1, facts.servers) else { return .ok("cluster", finding) }
        let advice =
            "Each statement is planned for each shard: 2 to 4 a server are cheaper. Another number takes a new cluster."
        return .warning("cluster", finding, advice)
    }

    private func diagnoses(of health: Distribution.Health) -> [Diagnosis] {
        if health.isDisowned {
            let advice =
                "Let \(Setting.databaseURL.variable) name a server of it: this one goes by an old catalog, and gateways that "
                + "connect to it refuse all requests."
            return [.failed("cluster servers", "this one was taken out of the cluster", advice)]
        }
        guard health.silent.isEmpty else {
            let advice = "Start them: organizations that lie there are answered 503 until then; the others are served."
            return [.failed("cluster servers", "no answer from \(health.silent.joined(separator: ", "))", advice)]
        }
        return [
            servers(health), owner(health), transactions(health), workers(health), moves(health), locks(health),
            entrance(health),
        ]
    }

    private func servers(_ health: Distribution.Health) -> Diagnosis {
        let finding = "\(health.servers) answer; \(health.fewestShards) to \(health.mostShards) shards on each"
        guard health.mostShards > 2 * max(1, health.fewestShards) else { return .ok("cluster servers", finding) }
        return .warning("cluster servers", finding, "Spread them: SELECT citus_rebalance_start().")
    }

    private func owner(_ health: Distribution.Health) -> Diagnosis {
        let names = health.owners.joined(separator: ", ")
        if health.owners.count < 2 { return .ok("cluster owner", names) }
        let advice = "Give all tables one owner before any shard is moved: a move can lose rows of the others."
        return .failed("cluster owner", "tables belong to \(names)", advice)
    }

    private func transactions(_ health: Distribution.Health) -> Diagnosis {
        let finding = "max_prepared_transactions is \(health.preparedTransactions) or more"
        if health.preparedTransactions > 0 { return .ok("cluster transactions", finding) }
        let advice =
            "Set max_prepared_transactions to max_connections on every server: a change of all organizations takes them."
        return .failed("cluster transactions", finding, advice)
    }

    /// Each database with Citus takes one background worker of every server, and each move of a shard several.
    private func workers(_ health: Distribution.Health) -> Diagnosis {
        let finding = "max_worker_processes is \(health.workerProcesses) or more"
        if health.workerProcesses >= 16 { return .ok("cluster workers", finding) }
        let advice =
            "Set max_worker_processes to 16 or more on every server, and restart it: moves of shards need them."
        return .warning("cluster workers", finding, advice)
    }

    private func moves(_ health: Distribution.Health) -> Diagnosis {
        let finding = "wal_retrieve_retry_interval is at most \(health.retryMilliseconds) ms"
        if health.retryMilliseconds <= 1_000 { return .ok("cluster moves", finding) }
        let advice =
            "Set wal_retrieve_retry_interval to 100ms on every server and reload it: each table of a moved shard waits "
            + "for so long before it is copied."
        return .warning("cluster moves", finding, advice)
    }

    private func locks(_ health: Distribution.Health) -> Diagnosis {
        if health.hasLockTimeout { return .ok("cluster locks", "the role's lock_timeout is set") }
        let seconds = settings.databasePatience.lock / .seconds(1)
        return .warning(
            "cluster locks",
            "the role has no lock_timeout, and the gateway's does not reach the servers behind this one",
            "ALTER ROLE … SET lock_timeout = '\(Int(seconds * 1_000))ms' on the coordinator, which tells the others."
        )
    }

    private func entrance(_ health: Distribution.Health) -> Diagnosis {
        if health.entrances > 1 { return hints("gateways are connected to \(health.entrances) servers") }
        if !health.isCoordinator { return hints("this gateway connects to another server than the coordinator") }
        if health.servers < 3 || settings.directCommits { return .ok("cluster entrance", "the coordinator") }
        return .warning(
            "cluster entrance",
            "all gateways are connected to one server, which plans everything",
            "Set \(Setting.directCommits.variable)=yes, or let gateways connect to different servers, and set "
                + "\(Setting.hintsDatabaseURL.variable) to the coordinator."
        )
    }

    /// Whether groups can go straight to the servers that have their rows, and do. Nothing where servers are silent.
    private func commits(to homes: Set<ServerAddress>) async -> [Diagnosis] {
        if homes.isEmpty { return [] }
        let setting = Setting.directCommits.variable
        var failures: [String] = []
        for server in homes.sorted(by: { "\($0)" < "\($1)" }) {
            do {
                try await SchemaCheck.withConnection(to: settings.databaseURL, at: server) { _ in }
            } catch {
                failures.append("\(server): \(error.words)")
            }
        }
        switch (failures.isEmpty, settings.directCommits) {
        case (true, true):
            let finding =
                "straight to \(homes.count) servers, with up to \(settings.committerConnections) connections to each"
            return [.ok("cluster commits", finding)]
        case (true, false):
            let finding = "go by way of another server, though all can be reached from here"
            return [.warning("cluster commits", finding, "Set \(setting)=yes: each push then costs the servers less.")]
        case (false, true):
            let advice =
                "Let the gateway's role and password in from here under the names in pg_dist_node, or leave out \(setting): "
                + "what cannot be reached goes by way of another server, and each try takes time. Where another server answers, "
                + "give each in pg_dist_node a name that means the same everywhere."
            return [.failed("cluster commits", failures.joined(separator: "; "), advice)]
        case (false, false): return [.ok("cluster commits", "go by way of the server that gateways connect to")]
        }
    }

    private func hints(_ finding: String) -> Diagnosis {
        if settings.hintsDatabaseURL != nil { return .ok("cluster entrance", finding) }
        let advice =
            "Set \(Setting.hintsDatabaseURL.variable) to one of them, the same for all gateways: a notification stays on "
            + "its server, and changes are noticed up to 15 seconds late."
        return .failed("cluster entrance", finding, advice)
    }
}

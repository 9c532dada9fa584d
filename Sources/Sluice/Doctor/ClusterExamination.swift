import CommandSupport
import Postgres
import SyncStore

/// Checks a Citus cluster and its servers, if the database is a Citus cluster.
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
            return [.failed("cluster", "cannot be queried: \(error.userMessage)", "Check its servers, and try again.")]
        }
    }

    private func unspread(_ version: String, _ facts: Distribution.Facts) -> Diagnosis {
        let finding = "Citus \(version) is installed, but the tables are on this server only"
        if facts.workers == 0 { return .ok("cluster", finding) }
        let advice =
            "Its \(facts.workers) workers store no tables. While the tables are empty, run: sluice migrate --citus"
        return .warning("cluster", finding, advice)
    }

    private func spread(_ version: String, _ facts: Distribution.Facts) -> Diagnosis {
        let finding = "Citus \(version), \(facts.servers) servers, \(facts.shards) shards of each table"
        // the first version whose messages were tested
        if let major = version.split(separator: ".").first.flatMap({ Int($0) }), major < 13 {
            return .warning("cluster", finding, "Use Citus 13; earlier versions are untested.")
        }
        guard facts.shards > 4 * max(1, facts.servers) else { return .ok("cluster", finding) }
        let advice =
            "Statements are planned for each shard: use 2 to 4 per server. A different number requires a new cluster."
        return .warning("cluster", finding, advice)
    }

    private func diagnoses(of health: Distribution.Health) -> [Diagnosis] {
        if health.isDisowned {
            let advice =
                "Set \(Setting.databaseURL.variable) to a server of the cluster: this one has an old catalog, and "
                + "gateways that "
                + "connect to it reject all requests."
            return [.failed("cluster servers", "this one was removed from the cluster", advice)]
        }
        guard health.silent.isEmpty else {
            let advice = "Start them. Until then, requests of their organizations receive 503; the others are served."
            return [.failed("cluster servers", "no response from \(health.silent.joined(separator: ", "))", advice)]
        }
        return [
            servers(health), owner(health), transactions(health), workers(health), moves(health), locks(health),
            entrance(health),
        ]
    }

    private func servers(_ health: Distribution.Health) -> Diagnosis {
        let finding = "\(health.servers) respond; \(health.fewestShards) to \(health.mostShards) shards on each"
        guard health.mostShards > 2 * max(1, health.fewestShards) else { return .ok("cluster servers", finding) }
        return .warning("cluster servers", finding, "Spread them: SELECT citus_rebalance_start().")
    }

    private func owner(_ health: Distribution.Health) -> Diagnosis {
        let names = health.owners.joined(separator: ", ")
        if health.owners.count < 2 { return .ok("cluster owner", names) }
        let advice =
            "Change all tables to one owner before moving a shard; a move can lose rows of the tables of other owners."
        return .failed("cluster owner", "tables belong to \(names)", advice)
    }

    private func transactions(_ health: Distribution.Health) -> Diagnosis {
        let finding = "max_prepared_transactions is \(health.preparedTransactions) or more"
        if health.preparedTransactions > 0 { return .ok("cluster transactions", finding) }
        let advice =
            "Set max_prepared_transactions to max_connections on every server; changes of all organizations need them."
        return .failed("cluster transactions", finding, advice)
    }

    /// Checks the number of background workers. Each database with Citus needs one background worker on every server,
    /// and each move of a shard needs several.
    private func workers(_ health: Distribution.Health) -> Diagnosis {
        let finding = "max_worker_processes is \(health.workerProcesses) or more"
        if health.workerProcesses >= 16 { return .ok("cluster workers", finding) }
        let advice =
            "Set max_worker_processes to 16 or more on every server, and restart it. Moves of shards need them."
        return .warning("cluster workers", finding, advice)
    }

    private func moves(_ health: Distribution.Health) -> Diagnosis {
        let finding = "wal_retrieve_retry_interval is at most \(health.retryMilliseconds) ms"
        if health.retryMilliseconds <= 1_000 { return .ok("cluster moves", finding) }
        let advice =
            "Set wal_retrieve_retry_interval to 100ms on every server and reload it. Each table of a moved shard waits "
            + "for this time before it is copied."
        return .warning("cluster moves", finding, advice)
    }

    private func locks(_ health: Distribution.Health) -> Diagnosis {
        if health.hasLockTimeout { return .ok("cluster locks", "the role's lock_timeout is set") }
        let seconds = settings.databaseTimeouts.lock / .seconds(1)
        return .warning(
            "cluster locks",
            "the role has no lock_timeout, and the gateway's setting does not reach the servers behind this one",
            "ALTER ROLE … SET lock_timeout = '\(Int(seconds * 1_000))ms' on the coordinator, which applies it to all servers."
        )
    }

    private func entrance(_ health: Distribution.Health) -> Diagnosis {
        if health.entrances > 1 { return hints("gateways are connected to \(health.entrances) servers") }
        if !health.isCoordinator { return hints("this gateway does not connect to the coordinator") }
        if health.servers < 3 || settings.directCommits { return .ok("cluster entrance", "the coordinator") }
        return .warning(
            "cluster entrance",
            "all gateways are connected to one server, which plans all statements",
            "Set \(Setting.directCommits.variable)=yes, or connect gateways to different servers and set "
                + "\(Setting.hintsDatabaseURL.variable) to the coordinator."
        )
    }

    /// Checks whether groups can be sent directly to the servers that have their rows, and whether the gateway does so.
    /// Returns no diagnosis if servers do not respond.
    private func commits(to homes: Set<ServerAddress>) async -> [Diagnosis] {
        if homes.isEmpty { return [] }
        let setting = Setting.directCommits.variable
        var failures: [String] = []
        for server in homes.sorted(by: { "\($0)" < "\($1)" }) {
            do {
                try await SchemaCheck.withConnection(to: settings.databaseURL, at: server) { _ in }
            } catch {
                failures.append("\(server): \(error.userMessage)")
            }
        }
        switch (failures.isEmpty, settings.directCommits) {
        case (true, true):
            let finding =
                "directly to \(homes.count) servers, with up to \(settings.committerConnections) connections to each"
            return [.ok("cluster commits", finding)]
        case (true, false):
            let finding = "sent through another server, although all servers can be reached directly"
            return [.warning("cluster commits", finding, "Set \(setting)=yes to reduce the cost of each push.")]
        case (false, true):
            let advice =
                "Allow the gateway's role to connect from here with the host names in pg_dist_node, or unset "
                + "\(setting): "
                + "commits to unreachable servers are sent through another server, after a failed attempt. If a name "
                + "leads to "
                + "another server, use names in pg_dist_node that resolve to the same server everywhere."
            return [.failed("cluster commits", failures.joined(separator: "; "), advice)]
        case (false, false): return [.ok("cluster commits", "sent through the server that gateways connect to")]
        }
    }

    private func hints(_ finding: String) -> Diagnosis {
        if settings.hintsDatabaseURL != nil { return .ok("cluster entrance", finding) }
        let advice =
            "Set \(Setting.hintsDatabaseURL.variable) to the same server for all gateways. Notifications are local to "
            + "a server; without this setting, changes are detected up to 15 seconds late."
        return .failed("cluster entrance", finding, advice)
    }
}

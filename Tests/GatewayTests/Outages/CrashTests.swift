import Foundation
import GatewaySupport
import TestSupport
import Testing

/// A load during which gateways and PostgreSQL are killed.
@Suite(.serialized, .timeLimit(.minutes(10))) struct CrashTests {
    /// Two replicas. Either or both of them are killed with SIGKILL and restarted.
    @Test(arguments: [UInt64.random(in: 0...999_999)])
    func `killed gateways lose no mutation and apply no mutation twice`(seed: UInt64) async throws {
        let database = try await LiveGateway.migratedDatabase()
        let gateways = [
            try await GatewayProcess.start(database: database.uri),
            try await GatewayProcess.start(database: database.uri),
        ]
        let load = try await Load(seed: seed, on: database, gateways: gateways)
        try await load.run(
            [[0], [1], [0, 1], [1], [0], [0, 1]].map { victims in
                {
                    for victim in victims { try await gateways[victim].crash() }
                    for victim in victims { try gateways[victim].restart() }
                }
            }
        )
        #expect(await load.setbacks > 0, "the crashes affected the load")
        for gateway in gateways { try await gateway.waitUntilReady() }
        try await load.expectAllOnceAndInOrder()
        for gateway in gateways {
            #expect(try await gateway.terminate() == 0)
            #expect(gateway.log == "", "no warnings or errors")
        }
    }

    /// PostgreSQL is shut down in an orderly way, stopped as in a crash, and ended by a kill of its main process. The
    /// gateways keep running.
    @Test(arguments: [UInt64.random(in: 0...999_999)])
    func `a PostgreSQL crash loses no acknowledged mutation`(seed: UInt64) async throws {
        let cluster = try await TestCluster.dedicated(isDurable: true)
        let database = try await LiveGateway.migratedDatabase(on: cluster)
        let gateways = [
            try await GatewayProcess.start(database: database.uri),
            try await GatewayProcess.start(database: database.uri),
        ]
        let load = try await Load(seed: seed, on: database, gateways: gateways)
        try await load.run([
            { try await cluster.restart(immediate: true) },
            { try await cluster.restart() },
            {
                try await cluster.kill()
                try await cluster.start()
            },
            {
                // all processes at once
                try await gateways[0].crash()
                try await cluster.restart(immediate: true)
                try gateways[0].restart()
            },
        ])
        #expect(await load.setbacks > 0, "the crashes affected the load")
        for gateway in gateways { try await gateway.waitUntilReady() }
        try await load.expectAllOnceAndInOrder()
        for gateway in gateways {
            #expect(try await gateway.terminate() == 0)
            #expect(gateway.log == "", "no warnings or errors")
        }
        await cluster.close()
    }
}

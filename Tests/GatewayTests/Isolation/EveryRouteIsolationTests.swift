import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import SyncModel
import Testing

/// Strangers try Ada's ids in every possible place, on every route of the served contract. The answers equal those for
/// objects that do not exist, and no object of Ada is shown or changed.
@Suite struct EveryRouteIsolationTests {
    /// The contract as a gateway serves it.
    private static func served(_ fixture: TwoTenantFixture) async throws -> Contract {
        let reply = try await send(.GET, fixture.gateway.address + "/openapi.json")
        #expect(reply.body == (try Contract.bytes()))
        return try Contract()
    }

    @Test func `every place that can contain an id is tried`() async throws {
        let contract = try await Self.served(TwoTenantFixture())
        let places = Set(Guess.all.map(\.place))
        #expect(contract.placesOfIDs(ofOperations: false) == places, "a case is missing or outdated")
        #expect(places.count > 25)
        let operators = Set(OperatorGuess.all.map(\.place))
        #expect(contract.placesOfIDs(ofOperations: true) == operators)
    }

    @Test(arguments: ["organization", "user", "channels"], [true, false])
    func `an inaccessible object is answered like a missing one`(_ visibility: String, _ isForeign: Bool) async throws {
        let belongings = try await Belongings(visibility: visibility)
        let before = try await belongings.rows()
        #expect(before.count > 5)
        for guess in Guess.all {
            for kind in guess.kinds {
                // colleagues may also name objects that are shared in the organization
                let isShared = !isForeign && visibility == "organization"
                if !isForeign, kind == .organization { continue }
                if isShared, kind == .server, guess.place.hasSuffix("/server_id") { continue }
                let name = try belongings.name(kind)
                let stranger = try await Stranger(belongings.fixture, isForeign: isForeign)
                let reply = try await guess.send(stranger.worker, name)
                if !(isShared && guess.showsFeed) {
                    Self.expectNothingOf(belongings, in: reply, butFor: name, "\(guess.place) \(kind)")
                }
                guard let strange = try belongings.strangeName(kind, for: stranger) else { continue }
                let other = try await Stranger(belongings.fixture, isForeign: isForeign)
                let answer = try await guess.send(other.worker, strange)
                #expect(reply.status == answer.status, "\(guess.place) \(kind)")
                #expect(Self.bland(reply) == Self.bland(answer), "\(guess.place) \(kind)")
                #expect(Self.fields(reply) == Self.fields(answer), "\(guess.place) \(kind)")
            }
        }
        #expect(try await belongings.rows() == before)
    }

    @Test func `a caller without a valid token gets no data for any id`() async throws {
        let belongings = try await Belongings(visibility: "organization")
        let fixture = belongings.fixture
        let before = try await fixture.tables()
        let contract = try await Self.served(fixture)
        for route in contract.routes(ofOperations: false) where route.contains(" /v1/") {
            let (method, path) = try Self.split(route, belongings)
            for token in [nil, LiveGateway.operatorToken, fixture.ada.token + "x"] {
                let reply = try await send(method, fixture.gateway.address + path, token: token, body: Array("{}".utf8))
                expectProblem(reply, .unauthorized, errors: [])
                Self.expectNothingOf(belongings, in: reply, butFor: "-", route)
            }
        }
        for route in contract.routes(ofOperations: true) where route.contains(" /admin/") {
            let (method, path) = try Self.split(route, belongings)
            for token in [nil, fixture.ada.token, fixture.eve.token, LiveGateway.operatorToken + "x"] {
                let reply = try await send(
                    method,
                    fixture.gateway.operations + path,
                    token: token,
                    body: Array("{}".utf8)
                )
                expectProblem(reply, .unauthorized, errors: [])
                Self.expectNothingOf(belongings, in: reply, butFor: "-", route)
            }
        }
        #expect(try await fixture.tables() == before)
    }

    @Test func `calls about one organization cannot access another organization`() async throws {
        let belongings = try await Belongings(visibility: "organization")
        let fixture = belongings.fixture
        let organization = fixture.ada.organization.lowercased
        let before = try await fixture.rows(mentioning: organization)
        for guess in OperatorGuess.all {
            for kind in guess.kinds {
                let name = try belongings.name(kind)
                // each call concerns an organization without data
                var replies: [Reply] = []
                for name in [name, kind.isCursor ? nil : UUID().lowercased].compactMap(\.self) {
                    let other = "/admin/organizations/\(UUID().lowercased)"
                    #expect(try await fixture.operate(.PUT, other, #"{"name":"Other"}"#).status == 201)
                    let body = guess.body?(name)
                    replies.append(try await fixture.operate(guess.method, guess.path(other, name), body))
                }
                Self.expectNothingOf(belongings, in: replies[0], butFor: name, "\(guess.place) \(kind)")
                #expect(Set(replies.map(\.status)).count == 1, "\(guess.place) \(kind)")
                #expect(Set(replies.map(Self.bland)).count == 1, "\(guess.place) \(kind)")
            }
            #expect(try await fixture.rows(mentioning: organization) == before, "\(guess.place)")
        }
    }

    // MARK: - Allowed differences

    /// A response without ids, cursors and other differences between two strangers.
    private static func bland(_ reply: Reply) -> String {
        reply.text
            .replacing(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/, with: "ID")
            .replacing(/\b[fei][12]-[0-9a-z-]+/, with: "CURSOR").replacing(/slt_[A-Za-z0-9_-]+/, with: "TOKEN")
    }

    private static func fields(_ reply: Reply) -> [String] {
        reply.headers.filter { !["date", "x-request-id", "content-length"].contains($0.name.lowercased()) }
            .map { "\($0.name): \($0.value.replacing(/[0-9a-f-]{36}/, with: "ID"))" }.sorted()
    }

    private static func expectNothingOf(
        _ belongings: Belongings,
        in reply: Reply,
        butFor given: String,
        _ comment: String
    ) {
        let text = reply.text + "\(reply.headers)"
        #expect(!text.contains(Belongings.secret), "\(comment): \(reply.text)")
        for (kind, name) in belongings.names where name != given && kind != .list {
            #expect(!text.contains(name), "\(comment) shows \(kind): \(reply.text)")
        }
        #expect(reply.status < 500, "\(comment): \(reply.text)")
    }

    /// A route's method, and its path with Ada's names.
    private static func split(_ route: String, _ belongings: Belongings) throws -> (HTTPMethod, String) {
        let words = route.split(separator: " ").map(String.init)
        let isAdmin = words[1].hasPrefix("/admin")
        let id = isAdmin ? belongings.fixture.ada.organization.lowercased : try belongings.name(.failed)
        let path = words[1].replacing("{id}", with: id)
            .replacing("{user}", with: try belongings.name(.user)).replacing("{name}", with: "task")
            .replacing("{device_id}", with: try belongings.name(.device))
            .replacing("{token_id}", with: UUID().lowercased)
            .replacing("{operation_id}", with: UUID().lowercased)
            .replacing("{mutation}", with: try belongings.name(.failed))
            .replacing("{organization}", with: try belongings.name(.organization)).replacing("{source}", with: "crm")
            .replacing("{webhook}", with: try belongings.name(.webhook))
            .replacing("{delivery}", with: try belongings.name(.delivery))
        return (HTTPMethod(rawValue: words[0]), path)
    }
}

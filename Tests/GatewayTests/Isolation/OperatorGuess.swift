import Foundation
import JSONText
import NIOHTTP1

/// A place of `/admin` that can contain an id, and a call about one organization with another organization's name in
/// that place.
struct OperatorGuess: Sendable {
    /// The guessed place, in the format of ``Contract/placesOfIDs(ofOperations:)``.
    let place: String
    let kinds: [Belongings.Kind]
    let method: HTTPMethod
    /// The organization's path, and a name.
    let path: @Sendable (String, String) -> String
    let body: (@Sendable (String) -> String)?

    @Sendable
    private static func grants(_ name: String) -> String {
        let grant = #"{"user":"/\#(name)","issuer":"\#(name)","channels":["user/\#(name)"],"role":"read"}"#
        return #"{"visibility":"channels","channels":["a"],"grants":[\#(grant)]}"#
    }

    private init(
        _ place: String,
        _ kinds: [Belongings.Kind],
        body: (@Sendable (String) -> String)? = nil,
        _ path: @escaping @Sendable (String, String) -> String
    ) {
        self.place = place
        self.kinds = kinds
        self.method = HTTPMethod(rawValue: String(place.prefix { $0 != " " }))
        self.body = body
        self.path = path
    }

    /// At least one guess for each place.
    static let all =
        organizations + names + parts + settling + webhooks + sources + operators + stuck + stories + operations

    private static let root = "/admin/organizations/{id}"
    private static let mutations: [Belongings.Kind] = [.mutation, .failed, .blocked, .conflict]

    /// Actions on the organization itself; the name is only data.
    private static let organizations = [
        OperatorGuess("GET /admin/organizations#cursor", [.user]) { _, name in
            "/admin/organizations?limit=1&cursor=ffffffff\(name.dropFirst(8))"
        },
        OperatorGuess("GET \(root)#id", [.user]) { path, _ in path },
        OperatorGuess("PUT \(root)#id", [.user], body: { _ in #"{"settings":{"on_failure":"halt"}}"# }) { path, _ in
            path
        },
        OperatorGuess("GET \(root)/entity-types/{name}#id", [.user]) { path, _ in path + "/entity-types/task" },
        OperatorGuess("PUT \(root)/entity-types/{name}#id", [.user], body: { _ in #"{"visibility":"user"}"# }) {
            path,
            _ in
            path + "/entity-types/task"
        },
        OperatorGuess(
            "PUT \(root)/entity-types/{name}#/routes/endpoint",
            [.user],
            body: { #"{"routes":{"collection":"/things","endpoint":"\#($0)"}}"# }
        ) { path, _ in path + "/entity-types/task" },
        OperatorGuess(
            "PUT \(root)/entity-types/{name}#/channels",
            [.user],
            body: { #"{"visibility":"channels","channels":["user/\#($0)"]}"# }
        ) { path, _ in path + "/entity-types/guessed" },
        OperatorGuess("PUT \(root)/entity-types/{name}#/grants/0/channels", [.user], body: grants) { path, _ in
            path + "/entity-types/guessed"
        },
        OperatorGuess("PUT \(root)/entity-types/{name}#/grants/0/issuer", [.user], body: grants) { path, _ in
            path + "/entity-types/guessed"
        },
        OperatorGuess("PUT \(root)/entity-types/{name}#/grants/0/user", [.user], body: grants) { path, _ in
            path + "/entity-types/guessed"
        },
        OperatorGuess("GET \(root)/upstream#id", [.user]) { path, _ in path + "/upstream" },
        OperatorGuess("PUT \(root)/upstream#id", [.user], body: { _ in #"{"base_url":"http://127.0.0.1:1"}"# }) {
            path,
            _ in
            path + "/upstream"
        },
        OperatorGuess("DELETE \(root)/upstream#id", [.user]) { path, _ in path + "/upstream" },
        OperatorGuess("DELETE \(root)#id", [.user]) { path, _ in path },
    ]

    private static func name(_ issuer: String, _ member: String, _ name: String) -> String {
        #"{"issuer":"\#(issuer)","\#(member)":"\#(name)"}"#
    }

    /// Guesses with a tenant's names, such as external ids and subjects, in places for ids.
    private static let names = [
        OperatorGuess(
            "PUT \(root)#/external_ids/0/issuer",
            [.user],
            body: { #"{"external_ids":[\#(name($0, "external_id", "nobody"))]}"# }
        ) { path, _ in path },
        OperatorGuess(
            "PUT \(root)#/external_ids/0/external_id",
            [.user],
            body: { #"{"external_ids":[\#(name("", "external_id", $0))]}"# }
        ) { path, _ in path },
        OperatorGuess("GET \(root)/users#id", [.user]) { path, _ in path + "/users" },
        OperatorGuess("GET \(root)/users#cursor", [.user]) { "\($0)/users?cursor=\($1)" },
        OperatorGuess("GET \(root)/users#issuer", [.user]) { "\($0)/users?subject=x&issuer=\($1)" },
        OperatorGuess("GET \(root)/users#subject", [.user]) { "\($0)/users?subject=\($1)" },
        OperatorGuess("POST \(root)/users#id", [.user], body: { _ in name("", "subject", "x") }) { path, _ in
            path + "/users"
        },
        OperatorGuess("POST \(root)/users#/issuer", [.user], body: { name($0, "subject", "x") }) { path, _ in
            path + "/users"
        },
        OperatorGuess("POST \(root)/users#/subject", [.user], body: { name("", "subject", $0) }) { path, _ in
            path + "/users"
        },
    ]

    /// The operator's views, filtered by the organization of the path.
    private static let operators = [
        OperatorGuess("GET \(root)/throughput#id", [.user]) { path, _ in path + "/throughput" },
        OperatorGuess("GET \(root)/entities#id", [.user]) { path, _ in path + "/entities" },
        OperatorGuess("GET \(root)/entities#entity_id", [.server]) {
            "\($0)/entities?entity_type=task&payload=true&entity_id=\($1)"
        },
        OperatorGuess("GET \(root)/entities#payload", [.user]) { "\($0)/entities?payload=\($1)" },
        OperatorGuess("GET \(root)/entities#cursor", [.list]) { "\($0)/entities?cursor=\($1)" },
        OperatorGuess("GET \(root)/keys#id", [.user]) { path, _ in path + "/keys" },
        OperatorGuess("GET \(root)/entity-types#id", [.user]) { path, _ in path + "/entity-types" },
        OperatorGuess("GET \(root)/entity-types#cursor", [.user]) { path, _ in path + "/entity-types?cursor=task" },
        OperatorGuess("POST \(root)/upstream/test#id", [.user], body: { _ in "{}" }) { path, _ in
            path + "/upstream/test"
        },
        OperatorGuess("GET /admin/audit#cursor", [.user, .webhook]) { path, name in
            "/admin/audit?organization_id=\(path.suffix(36))&until=2000-01-01T00:00:00Z&cursor=\(name)"
        },
        OperatorGuess("GET /admin/audit#organization_id", [.user]) { _, name in "/admin/audit?organization_id=\(name)"
        },
        OperatorGuess("GET /admin/audit#since", [.user]) { path, _ in
            "/admin/audit?organization_id=\(path.suffix(36))&since=2200-01-01T00:00:00Z"
        },
    ]

    /// The organization of a path.
    private static func organization(_ path: String) -> Substring { path.suffix(36) }

    /// Lists of stuck mutations and lanes. In a list over all organizations, another organization's id selects only
    /// that organization's rows. In a list of one organization, the id matches nothing.
    private static let stuck = [
        OperatorGuess("GET /admin/failures#organization_id", [.user]) { _, name in
            "/admin/failures?organization_id=\(name)"
        },
        OperatorGuess("GET /admin/failures#cursor", [.list]) {
            "/admin/failures?organization_id=\(organization($0))&cursor=\($1)"
        },
        OperatorGuess("GET /admin/mutations#organization_id", [.user]) { _, name in
            "/admin/mutations?organization_id=\(name)"
        },
        OperatorGuess("GET /admin/mutations#user_id", [.user]) {
            "/admin/mutations?organization_id=\(organization($0))&user_id=\($1)"
        },
        OperatorGuess("GET /admin/mutations#cursor", [.list]) {
            "/admin/mutations?organization_id=\(organization($0))&cursor=\($1)"
        },
        OperatorGuess("GET /admin/lanes#organization_id", [.user]) { _, name in "/admin/lanes?organization_id=\(name)"
        },
        OperatorGuess("GET /admin/lanes#cursor", [.list]) {
            "/admin/lanes?organization_id=\(organization($0))&cursor=\($1)"
        },
        OperatorGuess("GET /admin/operations#cursor", [.list]) { _, name in "/admin/operations?cursor=\(name)" },
    ]

    /// Reads and actions about one user or one mutation.
    private static let stories: [OperatorGuess] = {
        let user = "\(root)/users/{user}"
        let strange = UUID().lowercased
        var guesses = [
            OperatorGuess("GET \(user)/lane#cursor", [.list]) { "\($0)/users/\(strange)/lane?cursor=\($1)" },
            OperatorGuess("GET \(user)/explain#mutation", mutations) {
                "\($0)/users/\(strange)/explain?mutation=\($1)"
            },
            OperatorGuess("GET \(user)/explain#entity_id", [.server]) {
                "\($0)/users/\(strange)/explain?entity_type=note&entity_id=\($1)"
            },
            OperatorGuess("GET \(user)/explain#device", [.device]) { "\($0)/users/\(strange)/explain?device=\($1)" },
        ]
        for name in ["id", "user"] {
            for what in ["lane", "explain"] {
                guesses.append(OperatorGuess("GET \(user)/\(what)#\(name)", [.user]) { "\($0)/users/\($1)/\(what)" })
            }
        }
        let calls: [(method: String, below: String, body: String?)] = [
            ("GET", "", nil), ("POST", "/retry", "{}"), ("POST", "/discard", "{}"),
            ("POST", "/resolve", #"{"strategy":"server_wins"}"#),
        ]
        for (method, below, body) in calls {
            let place = "\(method) \(user)/mutations/{mutation}\(below)#"
            let content = body.map { body in { (_: String) in body } as @Sendable (String) -> String }
            for name in ["id", "user"] {
                guesses.append(
                    OperatorGuess(place + name, [.user], body: content) {
                        "\($0)/users/\($1)/mutations/\(strange)\(below)"
                    }
                )
            }
            guesses.append(
                OperatorGuess(place + "mutation", mutations, body: content) {
                    "\($0)/users/\(strange)/mutations/\($1)\(below)"
                }
            )
        }
        guesses.append(
            OperatorGuess("GET \(user)/mutations/{mutation}#payload", [.user]) {
                "\($0)/users/\(strange)/mutations/\(strange)?payload=\($1)"
            }
        )
        let contents: [(below: String, member: String, body: @Sendable (String) -> String)] = [
            ("/retry", "payload", { #"{"payload":{"of":"\#($0)"}}"# }),
            ("/retry", "endpoint", { #"{"endpoint":"/api/\#($0)"}"# }),
            ("/resolve", "payload", { #"{"strategy":"client_wins","payload":{"of":"\#($0)"}}"# }),
        ]
        for (below, member, body) in contents {
            guesses.append(
                OperatorGuess("POST \(user)/mutations/{mutation}\(below)#/\(member)", [.local], body: body) { path, _ in
                    "\(path)/users/\(strange)/mutations/\(strange)\(below)"
                }
            )
        }
        return guesses
    }()

    private static let operations: [OperatorGuess] = {
        let all = "\(root)/operations"
        let begin: @Sendable (String) -> String = { #"{"kind":"retry","reason":"because","filter":{\#($0)}}"# }
        var guesses = [
            OperatorGuess("GET \(all)#id", [.user]) { path, _ in path + "/operations" },
            OperatorGuess("GET \(all)#cursor", [.list]) { "\($0)/operations?cursor=\($1)" },
        ]
        for below in ["", "/preview"] {
            let path: @Sendable (String, String) -> String = { path, _ in "\(path)/operations\(below)" }
            let place = "POST \(all)\(below)#"
            guesses += [
                OperatorGuess(place + "id", [.user], body: { _ in begin("") }, path),
                OperatorGuess(place + "/filter/user_id", [.user], body: { begin(#""user_id":"\#($0)""#) }, path),
                OperatorGuess(place + "/filter/ids", mutations, body: { begin(#""ids":["\#($0)"]"#) }, path),
            ]
        }
        for (method, below) in [("GET", ""), ("POST", "/cancel")] {
            for name in ["id", "operation_id"] {
                guesses.append(
                    OperatorGuess("\(method) \(all)/{operation_id}\(below)#\(name)", [.user]) {
                        "\($0)/operations/\($1)\(below)"
                    }
                )
            }
        }
        return guesses
    }()

    private static let secret = #"{"secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}"#

    private static let webhooks: [OperatorGuess] = {
        let all = "\(root)/webhooks"
        let add = #"{"url":"https://hooks.example/","secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}"#
        var guesses = [
            OperatorGuess("GET \(all)#id", [.user]) { path, _ in path + "/webhooks" },
            OperatorGuess("POST \(all)#id", [.user], body: { _ in add }) { path, _ in path + "/webhooks" },
            OperatorGuess("GET \(all)/{webhook}/deliveries#cursor", [.delivery]) {
                "\($0)/webhooks/\(UUID().lowercased)/deliveries?cursor=\($1)"
            },
            OperatorGuess("POST \(all)/{webhook}/deliveries/{delivery}/retry#delivery", [.delivery]) {
                "\($0)/webhooks/\(UUID().lowercased)/deliveries/\($1)/retry"
            },
        ]
        let calls: [(method: String, path: String, body: String?)] = [
            ("GET", "", nil), ("PATCH", "", #"{"status":"disabled"}"#), ("DELETE", "", nil),
            ("POST", "/secret", secret),
            ("POST", "/test", nil), ("GET", "/deliveries", nil), ("POST", "/deliveries/retry", nil),
            ("POST", "/deliveries/{delivery}/retry", nil),
        ]
        for (method, below, body) in calls {
            let place = "\(method) \(all)/{webhook}\(below)#"
            let end = below.replacing("{delivery}", with: UUID().lowercased)
            let content = body.map { body in { (_: String) in body } as @Sendable (String) -> String }
            guesses.append(
                OperatorGuess(place + "id", [.user], body: content) { path, _ in
                    "\(path)/webhooks/\(UUID().lowercased)\(end)"
                }
            )
            guesses.append(OperatorGuess(place + "webhook", [.webhook], body: content) { "\($0)/webhooks/\($1)\(end)" })
        }
        return guesses
    }()

    /// The sources of an organization's events. Their names have no meaning in other organizations.
    private static let sources: [OperatorGuess] = {
        let all = "\(root)/sources"
        let mapping = #"{"rules":[{"entity_type":"task","operation":"delete","id":"/id","version":"/v"}]}"#
        let put =
            #"{"kind":"webhook","settings":{"mapping":\#(mapping)},"secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}"#
        let calls: [(method: String, path: String, below: String, body: String?)] = [
            ("GET", "", "", nil), ("GET", "/{name}", "/crm", nil), ("PUT", "/{name}", "/crm", put),
            ("POST", "/{name}/secret", "/crm/secret", secret),
            ("POST", "/{name}/test", "/crm/test", #"{"body":{"id":1,"v":1}}"#),
            ("POST", "/{name}/run", "/crm/run", "{}"), ("DELETE", "/{name}", "/crm", nil),
        ]
        return calls.map { method, path, below, body in
            let content = body.map { body in { (_: String) in body } as @Sendable (String) -> String }
            return OperatorGuess("\(method) \(all)\(path)#id", [.user], body: content) { root, _ in
                "\(root)/sources\(below)"
            }
        } + tests
    }()

    /// Guesses in the bodies of tests, whose values are not looked up.
    private static let tests: [OperatorGuess] = {
        let place = "POST \(root)/sources/{name}/test#"
        let path: @Sendable (String, String) -> String = { root, _ in root + "/sources/crm/test" }
        let header = OperatorGuess(
            place + "/headers/webhook-id",
            [.key],
            body: { #"{"body":{},"headers":{"webhook-id":"\#($0)"}}"# },
            path
        )
        return [header]
            + ["event_id", "id", "owner", "causing_key"].map { member in
                OperatorGuess(
                    place + "/mapping/rules/0/\(member)",
                    [.user],
                    body: { name in
                        var pointers = ["id": "/id", "version": "/v"]
                        pointers[member] = "/\(name)"
                        let rest = pointers.map { #","\#($0.key)":"\#($0.value)""# }.joined()
                        return #"{"body":{},"mapping":{"rules":[{"entity_type":"task","operation":"delete"\#(rest)}]}}"#
                    },
                    path
                )
            }
    }()

    private static func join(_ target: String) -> String { #"{"into":"\#(target)"}"# }

    private static let parts =
        ["GET", "PUT", "DELETE"].flatMap { method in
            ["id", "user"].map { name in
                OperatorGuess("\(method) \(root)/users/{user}#\(name)", [.user]) { "\($0)/users/\($1)" }
            }
        }
        + ["id", "user"].flatMap { name in
            [
                OperatorGuess("GET \(root)/users/{user}/channels#\(name)", [.user]) { "\($0)/users/\($1)/channels" },
                OperatorGuess(
                    "PUT \(root)/users/{user}/channels#\(name)",
                    [.user],
                    body: { _ in #"{"channel":"a","role":"read"}"# }
                ) { "\($0)/users/\($1)/channels" },
                OperatorGuess("DELETE \(root)/users/{user}/channels#\(name)", [.user]) {
                    "\($0)/users/\($1)/channels?channel=a"
                },
            ]
        }
        + [
            OperatorGuess(
                "PUT \(root)/users/{user}/channels#/channel",
                [.user],
                body: { #"{"channel":"user/\#($0)","role":"read"}"# }
            ) { path, _ in path + "/users/\(UUID().uuidString)/channels" },
            OperatorGuess("GET \(root)/channels#id", [.user]) { path, _ in path + "/channels?channel=a" },
            OperatorGuess("GET \(root)/channels#channel", [.user]) { path, name in
                path + "/channels?channel=user/\(name)"
            },
            OperatorGuess("GET \(root)/channels#cursor", [.user]) { path, name in
                path + "/channels?channel=a&cursor=\(name)"
            },
            OperatorGuess("DELETE \(root)/users/{user}/channels#channel", [.user]) { path, name in
                path + "/users/\(UUID().uuidString)/channels?channel=user/\(name)"
            },
            OperatorGuess("GET \(root)/users/{user}/export#id", [.user]) { "\($0)/users/\($1)/export" },
            OperatorGuess("GET \(root)/users/{user}/export#user", [.user]) { "\($0)/users/\($1)/export" },
            OperatorGuess("DELETE \(root)/users/{user}#user", [.user]) { "\($0)/users/\($1)?erase=true" },
            OperatorGuess("POST \(root)/users/{user}/join#id", [.user], body: { _ in Self.join(UUID().uuidString) }) {
                "\($0)/users/\($1)/join"
            },
            OperatorGuess("POST \(root)/users/{user}/join#user", [.user], body: { _ in Self.join(UUID().uuidString) }) {
                "\($0)/users/\($1)/join"
            },
            OperatorGuess("POST \(root)/users/{user}/join#/into", [.user], body: Self.join) { path, _ in
                "\(path)/users/\(UUID().uuidString)/join"
            },
            OperatorGuess("GET \(root)/service-tokens#id", [.user]) { path, _ in path + "/service-tokens" },
            OperatorGuess("POST \(root)/service-tokens#id", [.user], body: { _ in #"{"source":"crm"}"# }) { path, _ in
                path + "/service-tokens"
            },
            OperatorGuess("DELETE \(root)/service-tokens/{token_id}#id", [.user]) { "\($0)/service-tokens/\($1)" },
            OperatorGuess("DELETE \(root)/service-tokens/{token_id}#token_id", [.user]) {
                "\($0)/service-tokens/\($1)"
            },
            OperatorGuess("GET \(root)/mutations/recent#id", [.user]) { path, _ in path + "/mutations/recent" },
            OperatorGuess("GET \(root)/mutations/recent#user_id", [.user]) { "\($0)/mutations/recent?user_id=\($1)" },
            OperatorGuess("GET \(root)/mutations/recent#device_id", [.device]) {
                "\($0)/mutations/recent?device_id=\($1)"
            },
            OperatorGuess("GET \(root)/mutations/recent#entity_id", [.server]) {
                "\($0)/mutations/recent?entity_type=task&entity_id=\($1)"
            },
            OperatorGuess("GET \(root)/mutations/recent#mutation", mutations) {
                "\($0)/mutations/recent?mutation=\($1)"
            },
            OperatorGuess("GET \(root)/mutations/recent#cursor", [.list]) { "\($0)/mutations/recent?cursor=\($1)" },
            OperatorGuess("GET \(root)/mutations#id", [.user]) { path, _ in path + "/mutations" },
            OperatorGuess("GET \(root)/mutations#device_id", [.device]) { "\($0)/mutations?device_id=\($1)" },
            OperatorGuess("GET \(root)/mutations#user_id", [.user]) { "\($0)/mutations?user_id=\($1)" },
            OperatorGuess("GET \(root)/mutations#cursor", [.list]) { "\($0)/mutations?cursor=\($1)" },
        ]

    private static let settling = ["retry", "discard"].flatMap { move -> [OperatorGuess] in
        let (route, end) = ("POST \(root)/mutations/\(move)#", move == "discard" ? #","dependents":"discard"}"# : "}")
        return [
            OperatorGuess(route + "id", [.user], body: { _ in #"{"filter":{}"# + end }) { path, _ in
                "\(path)/mutations/\(move)"
            },
            OperatorGuess(route + "/ids", mutations, body: { #"{"ids":["\#($0)"]"# + end }) { path, _ in
                "\(path)/mutations/\(move)"
            },
            OperatorGuess(route + "/filter/device_id", [.device], body: { #"{"filter":{"device_id":"\#($0)"}"# + end })
            { path, _ in
                "\(path)/mutations/\(move)"
            },
            OperatorGuess(route + "/filter/user_id", [.user], body: { #"{"filter":{"user_id":"\#($0)"}"# + end }) {
                path,
                _ in
                "\(path)/mutations/\(move)"
            },
        ]
    }
}

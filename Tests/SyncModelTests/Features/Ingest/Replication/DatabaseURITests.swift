import IngestFeature
import SyncModel
import Testing

@Suite struct DatabaseURITests {
    private static let policy = AddressPolicy(allowed: [IPNetwork("10.0.0.0/8")].compactMap(\.self))

    @Test func `parses a URI, and adds nothing of the gateway's environment`() throws {
        let uri = try DatabaseURI("postgres://us%40er:p%27w%5C%2F@db.example.org:6432/my%20db?sslmode=verify-full")
        #expect(uri.user == "us@er" && uri.host == "db.example.org" && uri.port == 6_432 && uri.database == "my db")
        let address = try #require(IPAddress("93.184.216.34"))
        let words = uri.keywords(address: address, authorities: "/etc/cas")
        #expect(words.hasPrefix("host='db.example.org' hostaddr='93.184.216.34' port='6432' "))
        #expect(words.contains(#" user='us@er' password='p\'w\\/' "#))
        for part in [
            "dbname='my db'", "sslmode='verify-full'", "sslrootcert='/etc/cas'", "passfile='/nonexistent/",
            "sslcert='/nonexistent/", "gssencmode='disable'",
        ] {
            #expect(words.contains(part), "\(part)")
        }
        let plain = try DatabaseURI("postgresql://u@[2001:4860::1]/d")
        #expect(plain.host == "2001:4860::1" && plain.port == 5_432 && plain.security == .prefer)
        // an empty password counts as a password, so that of the environment is not used
        #expect(plain.keywords(address: address, authorities: "").contains("password=''"))
    }

    @Test(arguments: [
        "", "db", "host=db user=u", "https://u:p@db/d", "postgresql://db/d", "postgresql://u:p@db",
        "postgresql://u:p@db/",
        "postgresql://:p@db/d", "postgresql://u:p@/d", "postgresql:///d?host=db", "postgresql://u:p@a,b/d",
        "postgresql://u:p@%2Ftmp/d", "postgresql://u:p@db:0/d", "postgresql://u:p@db:65536/d", "postgresql://u:p@db:/d",
        "postgresql://u:p@db:+1/d", "postgresql://u:p@ss@db/d", "postgresql://u:p/ss@db/d", "postgresql://u:p%00@db/d",
        "postgresql://u:p%g0@db/d", "postgresql://u:p%ff@db/d", "postgresql://u:p@db/d/e", "postgresql://u:p@[db]/d",
        "postgresql://u:p@[::1/d", "postgresql://u:p\u{e9}@db/d", "postgresql://u:p@db/d#x y",
        "postgresql://u:" + String(repeating: "p", count: 2_000) + "@db/d",
    ])
    func `refuses other texts without repeating them`(text: String) {
        #expect {
            try DatabaseURI(text)
        } throws: { error in
            let reason = (error as? DatabaseURI.Malformed)?.reason ?? ""
            return !reason.isEmpty && (text.count < 12 || !reason.contains(text))
        }
    }

    @Test(arguments: [
        "host=evil", "hostaddr=127.0.0.1", "sslcert=/etc/passwd", "sslkey=/x", "sslrootcert=/x", "service=x",
        "passfile=/x", "options=-c", "sslmode=none", "sslmode=require&sslmode=disable", "krbsrvname=x", "gsslib=x",
        "requirepeer=x", "target_session_attrs=any", "application_name=x", "sslcrl=/x", "replication=1",
        "client_encoding=x", "SSLMODE=require", "%73slmode=require", "sslpassword=x", "dbname=x", "port=1",
        "load_balance_hosts=random", "channel_binding=", "sslkeylogfile=/x",
    ])
    func `refuses all but a few parameters`(query: String) {
        #expect(throws: DatabaseURI.Malformed.self) { try DatabaseURI("postgresql://u:p@db/d?\(query)") }
    }

    @Test(arguments: [
        ("disable", "10.1.2.3", true), ("disable", "93.184.216.34", false), ("prefer", "93.184.216.34", false),
        ("require", "93.184.216.34", true), ("verify-full", "93.184.216.34", true), ("verify-full", "127.0.0.1", false),
        ("require", "169.254.169.254", false), ("require", "::ffff:127.0.0.1", false),
        ("disable", "::ffff:10.0.0.1", true), ("require", "192.168.1.1", false),
    ])
    func `public addresses require TLS, and others the operator's permission`(
        mode: String,
        address: String,
        isGood: Bool
    ) throws {
        let uri = try DatabaseURI("postgresql://u:p@db/d?sslmode=\(mode)")
        #expect((uri.problem(try #require(IPAddress(address)), Self.policy) == nil) == isGood)
    }
}

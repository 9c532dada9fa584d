import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import SyncHTTP
import SyncModel
import TestSupport
import Testing

/// The operator's console in a real browser, against a real gateway.
@Suite(
    .enabled(if: TestServer.program("chromium") != nil, "chromium is not installed (scripts/bootstrap --tests)"),
    .serialized,
    .timeLimit(.minutes(10))
)
struct ConsoleTests {
    /// The folder for screenshots of every page; nil for none. `scripts/console-screenshots` sets it.
    private static let pictures = ProcessInfo.processInfo.environment["CONSOLE_SCREENSHOTS"].map { URL(filePath: $0) }

    @Test func `every page passes the checks in three sizes and two themes`() async throws {
        let console = try await ConsoleScene.make()
        let page = try await ConsolePage(console.fixture.gateway.operations)
        try await page.show(.desk, .light)
        try await page.open("/console")
        try await page.press("Tab")
        try await Self.check(page, "sign-in", of: #"/(not one header|no current page)/"#)
        try await page.signIn()
        for (name, path) in console.pages {
            try await page.open(path)
            try await page.press("Tab")
            try await Self.check(page, name)
            let problem = try await page.evaluate("document.querySelector('.problem')?.textContent ?? ''")
            #expect(problem.isEmpty, "\(name): \(problem)")
        }
    }

    /// Checks a page in all sizes and themes, and keeps a screenshot of each if there is a folder for them.
    ///
    /// - Parameter pattern: violations that are accepted on this page.
    private static func check(_ page: ConsolePage, _ name: String, of pattern: String = "/^$/") async throws {
        for theme in ConsolePage.Theme.allCases {
            for size in ConsolePage.Size.allCases {
                try await page.show(size, theme)
                let amiss = try await page.evaluate(
                    "\(ConsoleChecks.script).split('\\n').filter(each => !\(pattern).test(each)).join('\\n')"
                )
                #expect(amiss.isEmpty, "\(name), \(size.rawValue), \(theme.rawValue):\n\(amiss)")
                // the screenshot must not depend on the keyboard focus
                try await page.evaluate("document.activeElement.blur()")
                let file = "\(name)-\(size.rawValue)-\(theme.rawValue).webp"
                if let pictures { try await page.picture().write(to: pictures.appending(path: file)) }
            }
        }
        let complaints = try await page.complaints()
        #expect(complaints.isEmpty, "\(name): \(complaints)")
    }

    @Test func `a malicious payload is shown as text`() async throws {
        let console = try await ConsoleScene.make(isHostile: true)
        let page = try await ConsolePage(console.fixture.gateway.operations)
        try await page.show(.desk, .dark)
        try await page.open(console.mutation("hostile"))
        try await page.signIn()
        // the payload is hidden until the operator requests it
        #expect(try await page.evaluate("document.body.textContent.includes('alert(')") == "false")
        try await page.press("p")
        try await page.reaches("document.querySelector('.json') && \(ConsolePage.isDrawn)")
        let shown = try await page.text(".json")
        #expect(shown.contains(ConsoleScene.script), "markup is shown unchanged")
        #expect(
            shown.contains(ConsoleScene.large) && shown.contains(ConsoleScene.exact),
            "long texts and numbers are exact"
        )
        #expect(
            shown.contains("\\u202egnp.exe") && !shown.contains("\u{202e}"),
            "characters that change the direction are escaped"
        )
        #expect(shown.count < 40_000 && shown.contains("show all 204,002 characters"), "long texts are cut")
        #expect(try await page.evaluate("document.querySelectorAll('main script, main img').length") == "0")
        try await page.evaluate("document.querySelector('.json .more').click()")
        try await page.reaches("document.querySelector('.json').textContent.length > 200_000")
        try await page.open("/console/organizations")
        try await page.press("Tab")
        #expect(try await page.text("main").contains("<b>Bergen</b> U+202E"))
        let amiss = try await page.evaluate(ConsoleChecks.script)
        #expect(amiss.isEmpty, "\(amiss)")
        let complaints = try await page.complaints()
        #expect(complaints.isEmpty, "\(complaints)")
    }

    @Test func `JSON is shown and edited unchanged at any depth`() async throws {
        let console = try await ConsoleScene.make()
        let page = try await ConsolePage(console.fixture.gateway.operations)
        try await page.open("/console")
        let result = try await page.evaluate(
            #"""
            (async () => {
              const { parse, flawOf, leaves } = await import('/console/json.js')
              const { indented, jsonView } = await import('/console/jsonview.js')
              const amiss = []
              const is = (what, found, wanted) => { if (found !== wanted) amiss.push(`${what}: ${found}`) }
              const source = '{"n":12345678901234567890,"d":1.10,"e":-0.0e+10,"a":[1,{"b":[]}],"s":"\\u0000 ü"}'
              is('kept', parse(`{"payload":${source}}`).payload.text, source)
              is('indented', indented(source).replaceAll(/\n\s*/g, '').replaceAll(': ', ':'), source)
              is('not rounded', parse('{"id":9007199254740993}').id, '9007199254740993')
              is('a prototype', Object.getPrototypeOf(parse('{"__proto__":{"x":1}}')), Object.prototype)
              is('leaves', [...leaves(source)].map(each => each.join('=')).join(' '),
                '/n=12345678901234567890 /d=1.10 /e=-0.0e+10 /a/0=1 /a/1/b=[] /s="\\u0000 ü"')
              const deep = '['.repeat(1_000) + ']'.repeat(1_000)
              is('deep', flawOf(deep), null)
              const { Source } = await import('/console/json.js')
              const view = jsonView(new Source(deep), { label: 'Deep' })
              for (let more = true; more;) { more = view.querySelector(':scope > .more'); more?.click() }
              is('deep in a view', view.textContent.replaceAll(/\s/g, ''), deep)
              for (const [text, place] of [['', '1:1'], ['{"a":1,}', '1:8'], ['[1\n 2]', '2:2'], ['{"a" 1}', '1:6'],
                ['01', '1:2'], ['"\u0001"', '1:1'], ['"\\x"', '1:1'], ['tru', '1:1'], ['[1]]', '1:4']]) {
                const flaw = flawOf(text)
                is(JSON.stringify(text), flaw && `${flaw.line}:${flaw.column}`, place)
              }
              for (const text of ['0', '-1.5E+3', '""', 'null', ' [ ] ', '{"a":[1,{}]}']) is(text, flawOf(text), null)
              return amiss.join('\n')
            })()
            """#
        )
        #expect(result.isEmpty, "\(result)")
    }

    @Test func `an operator with only a keyboard can retry a mutation and cancel a group retry`() async throws {
        let console = try await ConsoleScene.make()
        let page = try await ConsolePage(console.fixture.gateway.operations)
        try await page.show(.desk, .light)
        try await page.open("/console")
        try await page.signIn()
        #expect(try await page.evaluate("document.activeElement.tagName") == "H1")
        try await page.open("/console")
        try await page.press("Tab")
        #expect(try await page.evaluate("document.activeElement.textContent") == "Skip to the content")
        try await page.press("?")
        try await page.reaches("document.querySelector('dialog[open]')")
        // the focus stays inside the dialog
        for _ in 0..<6 { try await page.press("Tab") }
        #expect(try await page.evaluate("Boolean(document.activeElement.closest('dialog, body:only-child'))") == "true")
        try await page.press("Escape")
        try await page.reaches("!document.querySelector('dialog')")

        // the retry of a group is previewed, and then cancelled
        for key in ["g", "f"] { try await page.press(key) }
        try await page.reaches("location.pathname === '/console/failures' && \(ConsolePage.isDrawn)")
        try await page.tab(to: "it.textContent === 'Retry…'")
        try await page.press("Enter")
        try await page.reaches("/^\\d+ mutation/.test(document.querySelector('dialog .preview .strong')?.textContent)")
        try await page.press("Escape")
        try await page.reaches("!document.querySelector('dialog')")
        #expect(
            try await page.evaluate("document.activeElement.textContent") == "Retry…",
            "the focus returns to the button"
        )

        // a single mutation is retried
        try await page.press("j")
        #expect(try await page.evaluate("Boolean(document.activeElement.closest('tbody tr'))") == "true")
        try await page.open(console.mutation("failed"))
        try await page.press("r")
        try await page.reaches("document.querySelector('dialog[open]')")
        try await page.tab(to: "it.textContent === 'Retry'")
        try await page.press("Enter")
        try await page.reaches("document.querySelector('.toast') && \(ConsolePage.isDrawn)")
        let complaints = try await page.complaints()
        #expect(complaints.isEmpty, "\(complaints)")
    }

    @Test func `a group is retried with a reason and its operation shows the results`() async throws {
        let console = try await ConsoleScene.make()
        let page = try await ConsolePage(console.fixture.gateway.operations)
        try await page.open("/console/failures?status=failed&entity_type=expense")
        try await page.signIn(LiveOperator.settling)
        try await page.tab(to: "it.textContent === 'Discard…'")
        try await page.press("Enter")
        try await page.reaches("document.querySelector('dialog .primary')?.textContent === 'Discard 3 mutations'")
        // without a reason, the dialog does not start the operation
        try await page.evaluate("document.querySelector('dialog .primary').click()")
        try await page.reaches("document.activeElement.getAttribute('aria-invalid') === 'true'")
        try await page.type("Test data, INC-1")
        try await page.press("Enter")
        try await page.reaches("/operations\\/[0-9a-f-]{36}$/.test(location.pathname) && \(ConsolePage.isDrawn)")
        try await page.reaches("document.querySelector('h1 + .pill')?.textContent === 'done'")
        #expect(try await page.text(".verdict").contains("3 done"))
        #expect(try await page.text("main").contains("Test data, INC-1"))
        try await page.open("/console/failures?status=failed&entity_type=expense")
        try await page.reaches("document.querySelector('.empty')")
    }

    @Test func `recent mutations link to a mutation's entity and device`() async throws {
        let console = try await ConsoleScene.make()
        let page = try await ConsolePage(console.fixture.gateway.operations)
        try await page.open(
            "/console/recent?organization_id=\(console.fixture.ada.organization.lowercased)&status=succeeded"
        )
        try await page.signIn(LiveOperator.settling)
        let links = "[...document.querySelectorAll('main tbody a')].map(each => each.pathname)"
        let (entity, device) = ("\(console.organization)/entity", "\(console.user)/devices/")
        #expect(try await page.evaluate("\(links).includes('\(entity)')") == "true")
        #expect(try await page.evaluate("\(links).some(each => each.startsWith('\(device)'))") == "true")
        // each id can be copied, even where a name is shown instead of the id
        let copied = "document.querySelector('main tbody .copy').title"
        #expect(try await page.evaluate(copied).wholeMatch(of: /Copy [0-9a-f-]{36}/) != nil)
        try await page.open("\(entity)?entity_type=expense&entity_id=\(console.mutations["entity"] ?? "")")
        #expect(
            try await page.evaluate("document.querySelectorAll('main .json').length") == "0",
            "the document is hidden at first"
        )
        // the create, the colleague's edit, and the conflict
        try await page.reaches("document.querySelectorAll('main tbody tr').length === 3")
        try await page.tab(to: "it.textContent === 'Show the document'")
        try await page.press("Enter")
        try await page.reaches("document.querySelector('main .json')")
        let audit = try await send(
            .GET,
            page.address + "/admin/audit?action=lookAtPayload",
            token: LiveOperator.token
        )
        #expect(audit.json?.value(at: "/audit/0/target/entity_type")?.string == "expense", "\(audit.text)")
        let complaints = try await page.complaints()
        #expect(complaints.isEmpty, "\(complaints)")
    }

    @Test func `the first steps are shown at a demo gateway until they are closed`() async throws {
        let owner = UUID()
        let fixture = try await TwoTenantFixture {
            $0.operatorTokens = LiveOperator.all ?? $0.operatorTokens
            $0.demo = LaneKey(organization: owner, user: owner)
        }
        try await fixture.gateway.makeOrganization(owner)
        let phone = try await SyncWorker(fixture.gateway, organization: owner, user: owner)
        let page = try await ConsolePage(fixture.gateway.operations)
        try await page.open("/console")
        try await page.signIn()
        try await page.reaches("/Nothing has arrived/.test(document.querySelector('.steps')?.textContent)")
        // the card looks for the push of the quick start
        let draft = phone.create().with(["id": #""019bb000-001d-7000-8000-000000000001""#])
        #expect(try await phone.push([draft]).statuses == ["succeeded"])
        try await page.reaches("document.querySelector('.steps .done')?.textContent.includes('It arrived')")
        let amiss = try await page.evaluate(ConsoleChecks.script)
        #expect(amiss.isEmpty, "\(amiss)")
        try await page.tab(to: "it.textContent === 'Close'")
        try await page.press("Enter")
        try await page.open("/console")
        #expect(try await page.evaluate("document.querySelectorAll('.steps').length") == "0")
        let complaints = try await page.complaints()
        #expect(complaints.isEmpty, "\(complaints)")
    }

    @Test func `an edit is validated in place and a conflict is resolved between two versions`() async throws {
        let console = try await ConsoleScene.make()
        let page = try await ConsolePage(console.fixture.gateway.operations)
        try await page.open(console.mutation("conflict"))
        try await page.signIn(LiveOperator.settling)
        try await page.press("e")
        try await page.reaches("document.querySelector('dialog textarea')")
        try await page.evaluate("document.querySelector('dialog textarea').focus()")
        try await page.evaluate("document.querySelector('dialog textarea').setSelectionRange(1, 1)")
        try await page.type("!")
        try await page.reaches("/^Line 1, column 2/.test(document.querySelector('#edit-payload-note').textContent)")
        #expect(try await page.evaluate("document.querySelector('dialog textarea').value").contains("12499.90"))
        try await page.press("Escape")
        try await page.reaches("!document.querySelector('dialog')")
        try await page.press("v")
        try await page.reaches("document.querySelector('dialog .comparison .differs')")
        let row = try await page.text("dialog .differs")
        #expect(row.contains("Lunch with Kari"), "\(row)")
        try await page.evaluate("document.querySelector('dialog .primary').click()")
        try await page.reaches("document.querySelector('h1 + .pill')?.textContent === 'discarded'")
        let complaints = try await page.complaints()
        #expect(complaints.isEmpty, "\(complaints)")
    }

    @Test func `a channel's page lists its users, and an operator can grant and revoke the channel`() async throws {
        let console = try await ConsoleScene.make()
        let page = try await ConsolePage(console.fixture.gateway.operations)
        try await page.open(console.channel)
        try await page.signIn()
        let rows = "document.querySelectorAll('main tbody tr').length"
        #expect(try await page.evaluate(rows) == "2")
        let text = try await page.text("main")
        #expect(text.contains("operator") && text.contains("entity case"), "\(text)")
        try await page.tab(to: "it.textContent === 'Grant…'")
        try await page.press("Enter")
        try await page.reaches("document.activeElement?.name === 'user'")
        try await page.type(console.fixture.ada.user.lowercased)
        try await page.press("Enter")
        try await page.reaches("\(rows) === 3 && \(ConsolePage.isDrawn)")
        let held = console.fixture.admin + "/users/\(console.fixture.ada.user.lowercased)/channels"
        let granted = try await console.fixture.operate(.GET, held)
        #expect(granted.json?.value(at: "/grants/0/role")?.string == "read", "\(granted.text)")
        try await page.open(console.user)
        try await page.reaches("document.querySelector('main').textContent.includes('office')")
        try await page.open(console.channel)
        // a grant by an entity has no button
        let buttons = "[...document.querySelectorAll('tbody button:not(.copy)')]"
        #expect(try await page.evaluate(buttons + ".length") == "2")
        try await page.evaluate(buttons + ".forEach((each, index) => index || each.click()); ''")
        try await page.reaches("document.querySelector('dialog[open]')")
        try await page.evaluate("document.querySelector('dialog .primary').click(); ''")
        try await page.reaches("\(rows) === 2 && \(ConsolePage.isDrawn)")
        let complaints = try await page.complaints()
        #expect(complaints.isEmpty, "\(complaints)")
        try await page.browser.call("Network.clearBrowserCookies")
        try await page.open(console.channel)
        try await page.signIn(LiveOperator.reading)
        #expect(try await page.evaluate("document.querySelectorAll('main tbody button:not(.copy)').length") == "0")
    }

    @Test func `an operator with the scope read is offered no actions`() async throws {
        let console = try await ConsoleScene.make()
        let page = try await ConsolePage(console.fixture.gateway.operations)
        try await page.open(console.mutation("failed"))
        try await page.signIn(LiveOperator.reading)
        let buttons = "[...document.querySelectorAll('main button')].map(each => each.textContent).join()"
        #expect(try await !page.evaluate(buttons).contains("Retry"))
        #expect(try await page.text("main").contains("requires the scope settle"))
        try await page.press("r")
        try await page.press("p")
        try await page.open(console.mutation("upstream"))
        let facts = "[...document.querySelectorAll('.facts')].map(each => each.textContent).join(' ')"
        let answer = try await page.evaluate(facts)
        #expect(answer.contains("hidden"), "\(answer)")
        #expect(!answer.contains("/contacts/0/x"), "\(answer)")
        try await page.open("/console/failures")
        let offered = try await page.evaluate(buttons)
        #expect(!["Retry", "Resolve", "Discard"].contains(where: offered.contains), "\(offered)")
        try await page.open(console.organization)
        #expect(try await !page.evaluate("document.body.textContent").contains("Purge"))
        try await page.open(console.organization + "/settings")
        #expect(
            try await page.evaluate("document.querySelectorAll('main :enabled').length") == "1",
            "only the id can be copied"
        )
    }

    @Test func `an ended session leads to the sign-in and then back to the page`() async throws {
        let console = try await ConsoleScene.make()
        let page = try await ConsolePage(console.fixture.gateway.operations)
        try await page.open(console.organization + "/settings")
        try await page.reaches("document.activeElement?.name === 'token'")
        try await page.type("not a token")
        try await page.press("Enter")
        try await page.reaches("document.querySelector('.sign-in .problem')")
        try await page.evaluate("document.activeElement.value = ''")
        try await page.signIn()
        #expect(try await page.evaluate("document.cookie").isEmpty, "no script reads the cookie")
        try await page.browser.call("Network.clearBrowserCookies")
        for key in ["g", "o"] { try await page.press(key) }
        try await page.reaches("document.querySelector('.sign-in')?.textContent.includes('has ended')")
        try await page.signIn()
        #expect(try await page.evaluate("location.pathname") == "/console/organizations")
        // the operator signs out
        try await page.tab(to: "it.textContent === 'Sign out'")
        try await page.press("Enter")
        try await page.reaches("document.querySelector('.sign-in')?.textContent.includes('signed out')")
        #expect(try await page.evaluate("fetch('/admin/me').then(answer => answer.status)") == "401")
    }

    @Test func `the browser's Back shows no data after signing out`() async throws {
        let console = try await ConsoleScene.make()
        let page = try await ConsolePage(console.fixture.gateway.operations)
        try await page.open(console.mutation("failed"))
        try await page.signIn()
        try await page.press("p")
        try await page.reaches("document.querySelector('.json') && \(ConsolePage.isDrawn)")
        // a cached page is requested again
        try await page.evaluate(
            """
            window.isKept = true
            setTimeout(() => dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true })))
            ''
            """
        )
        try await page.reaches("!window.isKept && document.querySelector('.bar') && \(ConsolePage.isDrawn)")
        try await page.press("p")
        try await page.reaches("document.querySelector('.json') && \(ConsolePage.isDrawn)")
        try await page.open("/console/organizations")
        try await page.tab(to: "it.textContent === 'Sign out'")
        try await page.press("Enter")
        try await page.reaches("document.querySelector('.sign-in')?.textContent.includes('signed out')")
        try await page.evaluate("setTimeout(() => history.back()); ''")
        try await page.reaches("location.pathname.includes('/mutations/') && document.querySelector('.sign-in')")
        #expect(try await page.evaluate("document.querySelectorAll('.json').length") == "0")
    }

    @Test func `an organization is suspended with a reason and purged only by entering its name`() async throws {
        let console = try await ConsoleScene.make()
        let page = try await ConsolePage(console.fixture.gateway.operations)
        try await page.open(console.organization + "/settings")
        try await page.signIn()
        try await page.tab(to: "it.name === 'stale_after_days'")
        try await page.evaluate("document.activeElement.value = ''")
        try await page.type("0")
        try await page.press("Enter")
        // the error is shown at the field of the member to which the response points
        try await page.reaches("document.activeElement.matches('[name=stale_after_days][aria-invalid]')")
        #expect(try await !page.text(".wrong:not([hidden])").isEmpty)
        try await page.open(console.organization)
        try await page.tab(to: "it.textContent === 'Purge…'")
        try await page.press("Enter")
        try await page.reaches("document.querySelector('dialog .primary:disabled')")
        try await page.type("Nordlys")
        #expect(try await page.evaluate("document.querySelector('dialog .primary').disabled") == "true")
        try await page.type(" Salg")
        #expect(try await page.evaluate("document.querySelector('dialog .primary').disabled") == "false")
        try await page.press("Tab")
        try await page.type("It moved away")
        try await page.press("Enter")
        try await page.reaches("location.pathname === '/console/organizations' && \(ConsolePage.isDrawn)")
        let gone = try await send(.GET, page.address + console.fixture.admin, token: LiveOperator.token)
        #expect(gone.status == 404)
    }

    @Test func `a probe answered with 404 by a reachable upstream is not shown as a failure`() async throws {
        let console = try await ConsoleScene.make()
        let page = try await ConsolePage(console.fixture.gateway.operations)
        try await page.open(console.organization + "/upstream")
        try await page.signIn()
        for (path, kind, text) in [
            ("/contacts/999", "verdict", "has no resource at this path"), ("/contacts", "verdict good", "200"),
        ] {
            try await page.reaches("document.querySelector('[name=path]')")
            try await page.evaluate("document.querySelector('[name=path]').value = '\(path)'; ''")
            try await page.tab(to: "it.textContent === 'Send a probe'")
            try await page.press("Enter")
            try await page.reaches("document.querySelector('.verdict')?.textContent.includes('\(text)')")
            #expect(try await page.evaluate("document.querySelector('.verdict').className.trim()") == kind)
        }
    }

    @Test func `the console never interprets text as markup or code`() throws {
        let folder = Repository.root.appending(path: "Sources/CConsole/assets")
        for file in try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil) {
            let text = try String(contentsOf: file, encoding: .utf8)
            let words = ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"]
            for word in words where text.contains(word) { Issue.record("\(file.lastPathComponent) has \(word)") }
        }
    }
}

package translate

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"
)

// function is a marked function on its way.
type function struct {
	*unit
	decl      *ast.FuncDecl
	dir       directive
	own       []*variable // parameters whose slices the batched function has, the first one counts
	results   []*variable
	shared    map[*types.Var]bool
	vars      map[*types.Var]*variable
	marked    map[ast.Node]bool // marks, and what has one in it
	points    []*point          // in the order of the source
	edits     []edit
	names     map[string]bool // that the text has
	typeNames map[string]bool // of these, in the types of variables
}

// variable is a parameter, a result, a local variable, or one that the translation adds.
type variable struct {
	obj    *types.Var // nil: added
	name   string     // in the generated text
	typ    string
	slice  string // of a parameter or result: the name of its slice
	values bool   // the slice has what the parameter points at
	zero   string // of a result: its first value
	taken  token.Pos
}

// point is one or more marks that stand together: a place where lookups take turns.
type point struct {
	number int
	after  string // label of where a lookup goes on
	pos    token.Pos
	marks  []mark
}

// mark is an address to ask for.
type mark struct {
	arg   ast.Expr
	typ   string // of the address
	lines string
	list  string // where it is put aside
	count string // how many are there, if that is not the number of lookups
	same  *mark  // the first mark with this list
	kept  bool   // the list is there already
}

// reserved has the names that generated text uses.
var reserved = map[string]bool{"len": true, "min": true, "uint8": true, "int": true, "gopt": true}

// newFunction returns nil if a refusal makes the rest meaningless.
func newFunction(u *unit, decl *ast.FuncDecl, c *ast.Comment) *function {
	f := &function{unit: u, decl: decl, dir: readDirective(u, decl, c),
		vars: map[*types.Var]*variable{}, shared: map[*types.Var]bool{},
		marked: map[ast.Node]bool{}, names: map[string]bool{},
		typeNames: map[string]bool{}}
	before := len(u.list)
	for _, e := range u.faults {
		if decl.Pos() <= e.Pos && e.Pos < decl.End() {
			u.refuse(e.Pos, "%s", e.Msg)
		}
	}
	if decl.Body == nil {
		u.refuse(decl.Pos(), "a function without a body")
	}
	if len(u.list) > before {
		return nil
	}
	fields := map[*ast.Ident]bool{}
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			fields[n.Sel] = true
		case *ast.Ident:
			f.names[n.Name] = f.names[n.Name] || !fields[n]
		}
		return true
	})
	for name := range reserved {
		f.names[name] = true
	}
	f.others()
	f.taken()
	f.fields()
	f.findMarks()
	f.subset()
	if len(u.list) > before {
		return nil
	}
	return f
}

// others keeps names of the package and of imports, which types of variables may have, from fresh.
// It refuses a package that gives names of Go which generated text needs another meaning.
func (f *function) others() {
	scope := f.types.Scope()
	for _, name := range scope.Names() {
		if _, ok := scope.Lookup(name).(*types.TypeName); ok {
			f.names[name] = true
		}
	}
	for _, s := range f.file.Imports {
		f.names[f.importName(s)] = true
	}
	for _, name := range []string{"len", "uint8", "int", "new", "nil", "false"} {
		if o := scope.Lookup(name); o != nil {
			f.refuse(f.decl.Name.Pos(), "the package has its own %s, at %s", name,
				f.fset.Position(o.Pos()))
		}
	}
}

// made returns how pkg.made calls a function or method of a name, declared as decl is.
func made(decl *ast.FuncDecl, name string) string {
	if decl.Recv == nil || len(decl.Recv.List) == 0 {
		return name
	}
	t := decl.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.ParenExpr:
			t = x.X
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name + "." + name
		default:
			return name
		}
	}
}

// taken refuses a name that the package has, or that another function asks for.
func (f *function) taken() {
	key := made(f.decl, f.dir.name)
	if at, ok := f.made[key]; ok {
		f.refuse(f.decl.Name.Pos(), "%s is asked for already, at %s", f.dir.name, f.fset.Position(at))
	}
	f.made[key] = f.decl.Name.Pos()
	if f.dir.name == "_" || f.dir.name == "init" && f.decl.Recv == nil {
		f.refuse(f.decl.Name.Pos(), "name=%s: no function can be called by it", f.dir.name)
	}
	var old types.Object
	if f.decl.Recv == nil {
		old = f.types.Scope().Lookup(f.dir.name)
	} else if o, ok := f.info.Defs[f.decl.Name].(*types.Func); ok {
		recv := o.Signature().Recv()
		old, _, _ = types.LookupFieldOrMethod(recv.Type(), true, f.types, f.dir.name)
	}
	if old != nil {
		f.refuse(f.decl.Name.Pos(), "%s is there already, at %s", f.dir.name,
			f.fset.Position(old.Pos()))
	}
}

// fields finds parameters and results.
func (f *function) fields() {
	if f.decl.Recv != nil {
		for _, id := range f.decl.Recv.List[0].Names {
			f.share(id)
		}
	}
	known := map[string]bool{}
	for _, field := range f.decl.Type.Params.List {
		if _, ok := field.Type.(*ast.Ellipsis); ok {
			f.refuse(field.Pos(), "a variadic function")
			return
		}
		for _, id := range field.Names {
			known[id.Name] = true
			if slices.Contains(f.dir.shared, id.Name) {
				f.share(id)
				continue
			}
			f.parameter(id, field.Type)
		}
		if len(field.Names) == 0 {
			f.refuse(field.Pos(), "a parameter without a name")
			return
		}
	}
	for _, name := range slices.Concat(f.dir.shared, f.dir.values) {
		if !known[name] {
			f.refuse(f.decl.Name.Pos(), "the directive names %s, which is no parameter", name)
		}
	}
	if len(f.own) == 0 {
		f.refuse(f.decl.Name.Pos(), "no parameter of a lookup's own: there is nothing to batch")
	}
	if f.decl.Type.Results == nil {
		return
	}
	for _, field := range f.decl.Type.Results.List {
		v := &variable{typ: f.source(field.Type.Pos(), field.Type.End())}
		v.zero = zero(f.info.TypeOf(field.Type), v.typ)
		if len(field.Names) == 0 {
			v.slice = f.fresh("out")
			f.results = append(f.results, v)
		}
		for _, id := range field.Names {
			w := *v
			w.name, w.slice = id.Name, f.fresh(plural(id.Name))
			f.define(id, &w)
			f.results = append(f.results, &w)
		}
	}
}

func (f *function) share(id *ast.Ident) {
	if v, ok := f.info.Defs[id].(*types.Var); ok {
		f.shared[v] = true
	}
}

func (f *function) parameter(id *ast.Ident, typ ast.Expr) {
	v := &variable{name: id.Name, typ: f.source(typ.Pos(), typ.End()), slice: f.fresh(plural(id.Name))}
	if slices.Contains(f.dir.values, id.Name) {
		v.values = true
		if _, ok := typ.(*ast.StarExpr); !ok {
			f.refuse(id.Pos(), "values=%s: the parameter is no pointer", id.Name)
		}
	}
	f.define(id, v)
	f.own = append(f.own, v)
}

// define enters a variable.
func (f *function) define(id *ast.Ident, v *variable) {
	if o, ok := f.info.Defs[id].(*types.Var); ok && id.Name != "_" {
		v.obj = o
		f.vars[o] = v
	}
}

// plural returns the name of the slice of what has a name.
func plural(name string) string {
	switch {
	case name == "_":
		return "unused"
	case strings.HasSuffix(name, "s") || strings.HasSuffix(name, "x") ||
		strings.HasSuffix(name, "sh") || strings.HasSuffix(name, "ch"):
		return name + "es"
	case strings.HasSuffix(name, "y") && len(name) > 1:
		return name[:len(name)-1] + "ies"
	}
	return name + "s"
}

// fresh returns a name that nothing in the text has, like the one asked for.
func (f *function) fresh(name string) string {
	got := name
	for i := 2; f.names[got] || token.IsKeyword(got); i++ {
		got = fmt.Sprint(name, i)
	}
	f.names[got] = true
	return got
}

// findMarks finds all marks and the statements that they are in.
func (f *function) findMarks() {
	var path []ast.Node
	found := false
	ast.Inspect(f.decl.Body, func(n ast.Node) bool {
		if n == nil {
			path = path[:len(path)-1]
			return true
		}
		path = append(path, n)
		call := f.markOf(n)
		if call == nil {
			return true
		}
		found = true
		stmt, ok := path[len(path)-2].(*ast.ExprStmt)
		if ok {
			switch path[len(path)-3].(type) {
			case *ast.BlockStmt, *ast.CaseClause:
			default:
				ok = false
			}
		}
		if !ok {
			f.refuse(call.Pos(), "a mark that is no statement of its own")
		}
		for _, above := range path {
			if lit, ok := above.(*ast.FuncLit); ok {
				f.refuse(call.Pos(), "a mark in a function literal, which begins at line %d",
					f.fset.Position(lit.Pos()).Line)
			}
			f.marked[above] = true
		}
		f.marked[stmt] = true
		return true
	})
	if !found {
		f.refuse(f.decl.Name.Pos(), "no mark: put gopt.Expensive before each read that waits for memory")
	}
}

// isMark reports whether a statement is a mark.
func (f *function) isMark(s ast.Stmt) bool {
	e, ok := s.(*ast.ExprStmt)
	return ok && f.markOf(e.X) != nil
}

// newPoint returns the point of marks that stand together.
func (f *function) newPoint(marks []ast.Stmt) *point {
	p := &point{number: len(f.points) + 1, pos: marks[0].Pos()}
	for _, s := range marks {
		call := f.markOf(s.(*ast.ExprStmt).X)
		t := f.info.TypeOf(call.Args[0])
		if ptr, ok := t.Underlying().(*types.Pointer); ok {
			t = ptr // Prefetch takes those of no name of their own
		}
		m := mark{arg: call.Args[0], typ: f.typeText(t, call.Pos()), lines: "1"}
		if len(call.Args) == 2 {
			m.lines = f.source(call.Args[1].Pos(), call.Args[1].End())
			f.onlyShared(call.Args[1])
		} else if ptr, ok := t.Underlying().(*types.Pointer); ok && !generic(ptr.Elem()) {
			size := types.SizesFor("gc", "amd64").Sizeof(ptr.Elem())
			m.lines = fmt.Sprint(min(max((size+63)/64, 1), 4))
		}
		p.marks = append(p.marks, m)
	}
	f.points = append(f.points, p)
	return p
}

// onlyShared refuses a number of lines that depends on the lookup.
func (f *function) onlyShared(e ast.Expr) {
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if v, ok := f.info.Uses[id].(*types.Var); ok && f.local(v) && !f.shared[v] {
				f.refuse(id.Pos(), "a number of lines that depends on %s, which is a lookup's own", id.Name)
			}
		}
		return true
	})
}

// local reports whether a variable belongs to the function.
func (f *function) local(v *types.Var) bool {
	return !v.IsField() && f.decl.Pos() <= v.Pos() && v.Pos() < f.decl.End()
}

// generic reports whether the size of a type depends on a parameter.
func generic(t types.Type) bool {
	switch t := t.(type) {
	case *types.TypeParam:
		return true
	case *types.Named:
		for i := range t.TypeArgs().Len() {
			if generic(t.TypeArgs().At(i)) {
				return true
			}
		}
		return generic(t.Underlying())
	case *types.Array:
		return generic(t.Elem())
	case *types.Struct:
		for v := range t.Fields() {
			if generic(v.Type()) {
				return true
			}
		}
	}
	return false
}

// typeText returns a type as the file writes it. A type that it cannot name is refused.
func (f *function) typeText(t types.Type, pos token.Pos) string {
	text := types.TypeString(types.Default(t), func(p *types.Package) string {
		if p == f.types {
			return ""
		}
		for _, s := range f.file.Imports {
			if s.Path.Value == `"`+p.Path()+`"` && f.importName(s) != "_" {
				return strings.TrimPrefix(f.importName(s), ".")
			}
		}
		f.refuse(pos, "a value of the type %s lives across a mark, and the file does not import %q",
			t, p.Path())
		return p.Name()
	})
	f.nameTypes(text)
	f.sayable(text, pos)
	return text
}

// nameTypes notes the names in a type.
func (f *function) nameTypes(text string) {
	ast.Inspect(parsed(text), func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			f.names[id.Name], f.typeNames[id.Name] = true, true
		}
		return true
	})
}

// sayable refuses a type that the generated function cannot name.
func (f *function) sayable(text string, pos token.Pos) {
	local := map[string]bool{"_": true}
	ast.Inspect(f.decl.Body, func(n ast.Node) bool {
		if s, ok := n.(*ast.TypeSpec); ok {
			local[s.Name.Name] = true
		}
		return true
	})
	ast.Inspect(parsed(text), func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if !n.Sel.IsExported() {
				f.refuse(pos, "a value of the type %s lives across a mark: it is of another package", text)
			}
		case *ast.Field:
			return false
		case *ast.Ident:
			if local[n.Name] {
				f.refuse(pos, "a value of the type %s lives across a mark: declare the type outside, and "+
					"name it", text)
			}
		}
		return true
	})
}

func parsed(text string) ast.Node {
	e, err := parser.ParseExpr(text)
	if err != nil {
		return &ast.BadExpr{}
	}
	return e
}

// zero returns the text of a type's first value.
func zero(t types.Type, text string) string {
	switch u := t.Underlying().(type) {
	case *types.Basic:
		switch {
		case u.Info()&types.IsBoolean != 0:
			return "false"
		case u.Info()&types.IsNumeric != 0:
			return "0"
		case u.Info()&types.IsString != 0:
			return `""`
		}
	case *types.Struct, *types.Array:
		if _, ok := t.(*types.TypeParam); !ok {
			return text + "{}"
		}
	case *types.Interface:
		if _, ok := t.(*types.TypeParam); ok {
			return "*new(" + text + ")"
		}
	}
	return "nil"
}

// sorted returns variables in the order of the source, those that were added behind them; all of
// the function for nil.
func (f *function) sorted(s set) []*variable {
	var list []*variable
	if s == nil {
		list = slices.Collect(maps.Values(f.vars))
	} else {
		list = slices.Collect(maps.Keys(s))
	}
	slices.SortFunc(list, func(a, b *variable) int {
		switch {
		case a.obj != nil && b.obj != nil:
			return cmp.Compare(a.obj.Pos(), b.obj.Pos())
		case a.obj == nil && b.obj == nil:
			return cmp.Compare(a.name, b.name)
		case a.obj == nil:
			return 1
		}
		return -1
	})
	return list
}

// translate returns the text of the batched function, or "" after a refusal.
func (f *function) translate() string {
	at, why := f.linear()
	switch {
	case f.dir.backend == "stages" && why != "":
		f.refuse(at, "backend=stages: %s", why)
		return ""
	case f.dir.backend == "switch" || why != "":
		return f.switched()
	}
	return f.stages()
}

package expr

// Object is an ordered mapping whose keys are found without regard to case; the
// case and the place of the first writing are kept. Objects compare by
// identity. An Object is safe for concurrent reading once it is filled.
type Object struct {
	keys      []string
	values    []Value
	index     map[string]int // by folded key
	sensitive bool
}

// NewObject returns an empty Object.
func NewObject() *Object { return &Object{} }

// NewCaseSensitiveObject returns an empty Object that tells "a" from "A", as
// the env context does on every system but Windows.
func NewCaseSensitiveObject() *Object { return &Object{sensitive: true} }

func (o *Object) fold(key string) string {
	if o.sensitive {
		return key
	}
	return foldKey(key)
}

// Set gives key the value v. A key that is there keeps its case and its place.
func (o *Object) Set(key string, v Value) {
	folded := o.fold(key)
	if i, ok := o.index[folded]; ok {
		o.values[i] = v
		return
	}
	if o.index == nil {
		o.index = make(map[string]int)
	}
	o.index[folded] = len(o.keys)
	o.keys = append(o.keys, key)
	o.values = append(o.values, v)
}

// Get returns the value of key.
func (o *Object) Get(key string) (Value, bool) {
	if o == nil {
		return nil, false
	}
	return o.getFolded(o.fold(key))
}

func (o *Object) getFolded(folded string) (Value, bool) {
	i, ok := o.index[folded]
	if !ok {
		return nil, false
	}
	return o.values[i], true
}

// Delete removes key. It takes time linear in the length of the Object.
func (o *Object) Delete(key string) {
	folded := o.fold(key)
	at, ok := o.index[folded]
	if !ok {
		return
	}
	delete(o.index, folded)
	o.keys = append(o.keys[:at:at], o.keys[at+1:]...)
	o.values = append(o.values[:at:at], o.values[at+1:]...)
	for k, i := range o.index {
		if i > at {
			o.index[k] = i - 1
		}
	}
}

// Keys returns the keys in the order of their first writing. The slice belongs
// to the Object.
func (o *Object) Keys() []string {
	if o == nil {
		return nil
	}
	return o.keys
}

// Len returns the number of keys.
func (o *Object) Len() int {
	if o == nil {
		return 0
	}
	return len(o.keys)
}
